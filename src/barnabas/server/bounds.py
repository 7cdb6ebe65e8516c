"""What clients can make grow in memory, the setting that bounds it, and what monitoring sees of both.

| what | bounded by | beyond that |
|---|---|---|
| partitions in fetch sessions | barnabas.fetch.session.max.partitions | no session: a full fetch each time |
| partitions in share sessions | the same setting, for themselves | SHARE_SESSION_LIMIT_REACHED |
| groups | barnabas.groups.max | GROUP_MAX_SIZE_REACHED |
| members, also about to join | barnabas.groups.max.members | GROUP_MAX_SIZE_REACHED |
| what members have said | barnabas.groups.max.bytes | GROUP_MAX_SIZE_REACHED |
| committed offsets | the same setting, for themselves | INVALID_COMMIT_OFFSET_SIZE |
| groups and client metrics with settings | barnabas.configs.max.resources | POLICY_VIOLATION |
| producer ids in all partitions | barnabas.producer.ids.max | the longest silent ones are forgotten |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from barnabas.controller.configs import invented_resources
from barnabas.metrics import catalogue
from barnabas.metrics.registry import Registry, Sample

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


class Growth(NamedTuple):
    """Something that grows: how large it is, how large it may get, how often that was in the way."""

    what: str
    present: int
    limit: int
    refused: int


def growths(broker: Broker) -> Iterator[Growth]:
    """Everything that is bounded; nothing of groups before the broker has started."""
    fetches = broker.fetch_sessions
    yield Growth(
        "fetch-session-partitions", fetches.partition_count, fetches.most_partitions, fetches.refused
    )
    resources, most = invented_resources(broker.image), broker.config["barnabas.configs.max.resources"]
    yield Growth("config-resources", resources, most, broker.refused_configs)
    producers = broker.logs.producers
    yield Growth("producer-ids", producers.count(), producers.limit, producers.forgotten)
    coordinators = getattr(broker, "coordinators", None)
    if coordinators is None:
        return
    shares = coordinators.share_partitions.sessions
    yield Growth("share-session-partitions", shares.partition_count, shares.most_partitions, shares.refused)
    ledger = coordinators.groups.ledger
    bounds = ledger.bounds
    yield Growth("groups", ledger.groups, bounds.groups, ledger.refused["groups"])
    yield Growth("group-members", ledger.members, bounds.members, ledger.refused["members"])
    yield Growth("group-bytes", ledger.member_bytes, bounds.size, ledger.refused["bytes"])
    yield Growth("offset-bytes", ledger.offset_bytes, bounds.size, ledger.refused["offsets"])


def declare_bounds_metrics(registry: Registry, broker: Broker) -> None:
    def samples(read: Callable[[Growth], int]) -> Callable[[], Iterator[Sample]]:
        return lambda: (Sample("", (("what", each.what),), read(each)) for each in growths(broker))

    registry.computed(catalogue.BOUNDED_STATE, samples(lambda growth: growth.present))
    registry.computed(catalogue.STATE_BOUNDS, samples(lambda growth: growth.limit))
    registry.computed(catalogue.STATE_REFUSED, lambda: _refused(broker))


def _refused(broker: Broker) -> Iterator[Sample]:
    for each in growths(broker):
        yield Sample("", (("what", each.what),), each.refused)
    coordinators = getattr(broker, "coordinators", None)
    if coordinators is not None:  # a bound of each group, which has no sum
        subscriptions = coordinators.groups.ledger.refused["subscriptions"]
        yield Sample("", (("what", "group-subscriptions"),), subscriptions)
