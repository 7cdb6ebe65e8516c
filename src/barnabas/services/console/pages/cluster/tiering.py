"""Tiered topics: data in the object store, copy backlog, errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

import msgspec

from barnabas.client import PartitionTiers, UnsupportedApiError, ask_brokers_if_allowed, describe_tiers
from barnabas.protocol.messages.tiers import BrokerTiers
from barnabas.security.authz import CLUSTER_NAME, Operation, ResourceType
from barnabas.services.console.context import RequestScope
from barnabas.services.console.needs import SHOWN
from barnabas.services.console.pages.list_parts import Paging, page_of
from barnabas.services.console.routes import NavigationEntry, Routes

routes = Routes()

PARTITIONS = 100
"""Per page."""


class TieringQuery(msgspec.Struct):
    topic: str = ""
    """Show the partitions of this topic."""
    page: int = 1
    """Page of the topics, or of the topic's partitions."""


class TierPartition(msgspec.Struct):
    partition: int
    leader: int | None
    log_start: int | None
    local_start: int | None
    tiered_end: int | None
    end: int | None
    local_bytes: int | None
    remote_bytes: int | None
    pending_records: int | None
    state: str
    error: str


class TierTopic(msgspec.Struct):
    topic: str
    partitions: int
    offline: int
    local_bytes: int | None
    remote_bytes: int | None
    """None if the brokers do not report it, as with Apache Kafka."""
    pending_records: int
    pending_bytes: int | None
    failing: int
    error: str
    """Error of one of the failing partitions."""


class TierBroker(msgspec.Struct):
    id: int
    error: str
    store_down: bool = False
    cache_bytes: int | None = None
    cache_limit_bytes: int | None = None
    cache_hit_ratio: float | None = None
    read_bytes_per_second: int | None = None
    copy_bytes_per_second: int | None = None


class TieringPage(msgspec.Struct):
    paging: Paging
    topics: list[TierTopic]
    partitions: list[TierPartition]
    """Partitions of the requested topic."""
    brokers: list[TierBroker] | None
    """None: the user may not describe the cluster."""
    note: str
    """Reason for missing figures."""


@routes.page(
    "/tiering",
    needs=SHOWN,
    template="cluster/tiering.html",
    entry=NavigationEntry("Tiering", "i", 80, "tiering", "Cluster"),
)
async def show_tiering(context: RequestScope, query: TieringQuery) -> TieringPage:
    """Tiered topics: local and remote bytes, copy backlog, errors; caches of the brokers."""
    client = context.client
    known = [query.topic] if query.topic else list(context.cluster.sampler.snapshot.topics)
    allowed = await context.allowed(Operation.DESCRIBE, ResourceType.TOPIC, known)
    names = await context.cluster.tiered.among(client, allowed)
    names, paging = page_of(names, query.page)
    if not names:
        return TieringPage(paging, [], [], [], "")
    try:
        topics = (await client.refresh(names)).topics.values()
        found = await describe_tiers(client, [topic for topic in topics if not topic.error])
    except UnsupportedApiError as error:
        return TieringPage(paging, [], [], [], f"These brokers are too old: {error}")
    partitions: list[TierPartition] = []
    if query.topic:
        shown, paging = page_of(found, query.page, PARTITIONS)
        partitions = [partition_of(each) for each in shown]
    return TieringPage(
        paging,
        [topic_of(name, list(parts)) for name, parts in groupby(found, lambda each: each.tp.topic)],
        partitions,
        await _brokers(context),
        ""
        if any(each.copying for each in found)
        else "These brokers report offsets only; Barnabas brokers report more.",
    )


async def _brokers(context: RequestScope) -> list[TierBroker] | None:
    if not await context.may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return None
    found = await ask_brokers_if_allowed(context.client)
    return None if found is None else brokers_of(found)


def topic_of(name: str, found: list[PartitionTiers]) -> TierTopic:
    copying = [each.copying for each in found if each.copying is not None]
    errors = [each.error for each in copying if each.error]
    pending = [each.pending_bytes for each in found]
    return TierTopic(
        name,
        len(found),
        sum(each.leader < 0 for each in found),
        _sum(each.local_bytes for each in found),
        _sum(each.remote_bytes for each in copying) if copying else None,
        _sum(each.pending_records for each in found),
        None if None in pending else _sum(pending),
        len(errors),
        errors[0] if errors else "",
    )


def partition_of(tiers: PartitionTiers) -> TierPartition:
    copying = tiers.copying
    return TierPartition(
        tiers.tp.partition,
        tiers.leader if tiers.leader >= 0 else None,
        tiers.log_start,
        tiers.local_start,
        tiers.tiered_end,
        tiers.end,
        tiers.local_bytes,
        copying.remote_bytes if copying is not None and copying.remote_bytes >= 0 else None,
        tiers.pending_records,
        copying.state if copying is not None else "",
        copying.error if copying is not None else "",
    )


def brokers_of(found: Mapping[int, BrokerTiers | str]) -> list[TierBroker]:
    return [
        TierBroker(broker, copying) if isinstance(copying, str) else _broker_of(broker, copying)
        for broker, copying in sorted(found.items())
    ]


def _broker_of(broker: int, copying: BrokerTiers) -> TierBroker:
    reads = copying.cache_hits + copying.cache_misses
    return TierBroker(
        broker,
        copying.error,
        copying.store_down,
        copying.cache_disk_bytes + copying.cache_memory_bytes,
        copying.cache_limit_bytes,
        copying.cache_hits / reads if reads else None,
        copying.read_bytes_per_second,
        copying.copy_bytes_per_second,
    )


def _sum(numbers: Iterable[int | None]) -> int:
    return sum(number for number in numbers if number is not None and number > 0)
