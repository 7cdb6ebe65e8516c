"""In-memory state that clients can grow, with the setting that bounds it and its metrics.

| state | bounded by | beyond the limit |
|---|---|---|
| partitions in fetch sessions | barnabas.fetch.session.max.partitions | no session: a full fetch each time |
| partitions in share sessions | the same setting, counted separately | SHARE_SESSION_LIMIT_REACHED |
| groups | barnabas.groups.max | GROUP_MAX_SIZE_REACHED |
| members, including joining ones | barnabas.groups.max.members | GROUP_MAX_SIZE_REACHED |
| bytes of member metadata | barnabas.groups.max.bytes | GROUP_MAX_SIZE_REACHED |
| metadata of one member of a classic group | barnabas.groups.max.member.metadata.bytes | GROUP_MAX_SIZE_REACHED |
| topics in a subscription | barnabas.groups.max.subscribed.topics | GROUP_MAX_SIZE_REACHED |
| committed offsets | the same setting, counted separately | INVALID_COMMIT_OFFSET_SIZE |
| groups and client metrics with settings | barnabas.configs.max.resources | POLICY_VIOLATION |
| clients that push metrics | barnabas.telemetry.max.clients | the longest idle client is evicted |
| series of their metrics | barnabas.telemetry.max.series | dropped |
| clients with quota usage | barnabas.quotas.max.clients | the longest idle clients are evicted |
| entities with quotas, in the metadata | barnabas.quotas.max.entities | POLICY_VIOLATION |
| ACLs, in the metadata | barnabas.acls.max | POLICY_VIOLATION |
| SCRAM credentials, in the metadata | barnabas.scram.credentials.max | POLICY_VIOLATION |
| producer ids in all partitions | barnabas.producer.ids.max | the longest idle producers are evicted |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from barnabas.broker.coordinators import Coordinators
from barnabas.cluster.image import MetadataImage
from barnabas.config.broker import BrokerConfig
from barnabas.controller.configs import invented_resources
from barnabas.handlers.telemetry import ClientTelemetry
from barnabas.log.dirs import LogManager
from barnabas.metrics import Registry, Sample, catalogue
from barnabas.replication import FetchSessions
from barnabas.security.quotas import ClientQuotas


class Bounded(Protocol):
    """Parts of the broker with bounded state."""

    @property
    def config(self) -> BrokerConfig: ...
    @property
    def coordinators(self) -> Coordinators: ...
    @property
    def fetch_sessions(self) -> FetchSessions: ...
    @property
    def image(self) -> MetadataImage: ...
    @property
    def logs(self) -> LogManager: ...
    @property
    def quotas(self) -> ClientQuotas: ...
    @property
    def refused_configs(self) -> int: ...
    @property
    def telemetry(self) -> ClientTelemetry: ...


class StateUsage(NamedTuple):
    """A kind of bounded state: current size, limit, and number of times the limit was hit."""

    what: str
    present: int
    limit: int
    refused: int | None
    """None if the controller enforces the limit."""


def state_usages(broker: Bounded) -> Iterator[StateUsage]:
    """Yield every kind of bounded state."""
    fetches = broker.fetch_sessions
    yield StateUsage(
        "fetch-session-partitions", fetches.partition_count, fetches.max_partitions, fetches.refused
    )
    resources, limit = invented_resources(broker.image), broker.config["barnabas.configs.max.resources"]
    yield StateUsage("config-resources", resources, limit, broker.refused_configs)
    image, config = broker.image, broker.config
    yield StateUsage("quota-entities", len(image.client_quotas), config["barnabas.quotas.max.entities"], None)
    yield StateUsage("acls", len(image.acls), config["barnabas.acls.max"], None)
    credentials = len(image.scram_credentials)
    yield StateUsage("scram-credentials", credentials, config["barnabas.scram.credentials.max"], None)
    telemetry = broker.telemetry
    limits = telemetry.limits
    yield StateUsage("telemetry-clients", len(telemetry), limits.clients, telemetry.forgotten)
    yield StateUsage("telemetry-series", len(telemetry.series), limits.series, telemetry.series.dropped)
    producers = broker.logs.producers
    yield StateUsage("producer-ids", producers.count(), producers.limit, producers.forgotten)
    quotas = broker.quotas
    yield StateUsage("quota-clients", len(quotas), quotas.limits.clients, quotas.forgotten)
    coordinators = broker.coordinators
    shares = coordinators.share_partitions.sessions
    yield StateUsage(
        "share-session-partitions", shares.partition_count, shares.max_partitions, shares.refused
    )
    ledger = coordinators.groups.ledger
    bounds = ledger.bounds
    yield StateUsage("groups", ledger.groups, bounds.groups, ledger.refused["groups"])
    yield StateUsage("group-members", ledger.members, bounds.members, ledger.refused["members"])
    yield StateUsage("group-bytes", ledger.member_bytes, bounds.size, ledger.refused["bytes"])
    yield StateUsage("member-metadata", ledger.max_metadata, bounds.metadata, ledger.refused["metadata"])
    yield StateUsage("subscribed-topics", ledger.max_topics, bounds.topics, ledger.refused["topics"])
    yield StateUsage("offset-bytes", ledger.offset_bytes, bounds.size, ledger.refused["offsets"])


def declare_bounds_metrics(registry: Registry, broker: Bounded) -> None:
    def samples(read: Callable[[StateUsage], int | None]) -> Callable[[], Iterator[Sample]]:
        return lambda: (
            Sample("", (("what", each.what),), value)
            for each in state_usages(broker)
            if (value := read(each)) is not None
        )

    registry.computed(catalogue.BOUNDED_STATE, samples(lambda growth: growth.present))
    registry.computed(catalogue.STATE_BOUNDS, samples(lambda growth: growth.limit))
    registry.computed(catalogue.STATE_REFUSED, samples(lambda growth: growth.refused))
