"""Overview, partitions and consumer groups of a topic."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from barnabas.client import TopicMetadata, admin
from barnabas.common.types import uuid_to_text
from barnabas.security.authz import Operation, ResourceType
from barnabas.services.console.administration.configuration import read_settings
from barnabas.services.console.administration.partitions import (
    MISSING,
    NO_LEADER,
    NOT_PREFERRED,
    PartitionRow,
    read_partitions,
)
from barnabas.services.console.administration.rights import may_change_cluster, may_change_topic
from barnabas.services.console.context import RequestScope
from barnabas.services.console.needs import topic
from barnabas.services.console.pages.list_parts import Paging, page_of
from barnabas.services.console.routes import Routes
from barnabas.services.console.sampling.snapshot import ClusterSnapshot

routes = Routes()

PARTITIONS = 100
"""Per page."""


class TopicQuery(msgspec.Struct):
    topic: str


class TopicRights(msgspec.Struct):
    """Rights of the user, to hide actions that would be refused."""

    read: bool
    write: bool
    alter: bool
    delete: bool
    see_configs: bool


class TopicPage(msgspec.Struct):
    topic: str
    id: str
    internal: bool
    partitions: int
    replication_factor: int
    records: int
    bytes: int | None
    """Bytes of all replicas; None if the brokers do not report them."""
    offline: int
    under_replicated: int
    not_preferred: int
    changed: dict[str, str]
    """Overrides of the topic."""
    may: TopicRights


class PartitionsQuery(msgspec.Struct):
    topic: str
    page: int = 1


class PartitionsPage(msgspec.Struct):
    topic: str
    paging: Paging
    rows: list[PartitionRow]
    tiered: bool
    may_elect: bool


@routes.page("/topics/{topic}", needs=topic(Operation.DESCRIBE), template="topic/summary.html")
async def show_topic(context: RequestScope, query: TopicQuery) -> TopicPage:
    """One topic: partitions, records, bytes, overridden settings, and problems."""
    found = await find_topic(context, query.topic)
    rights = await _rights(context, query.topic)
    if rights.read:
        context.cluster.scanner.warm()  # its records are probably the next page
    rows = await read_partitions(context.client, found, with_producers=False)
    return summary_of(found, rows, await _changed(context, rights, query.topic), rights)


@routes.page("/topics/{topic}/partitions", needs=topic(Operation.DESCRIBE), template="topic/partitions.html")
async def show_partitions(context: RequestScope, query: PartitionsQuery) -> PartitionsPage:
    """Partitions of a topic, a hundred per page: leader, replicas, ISR, offsets, size, producers, tiered data."""
    found = await find_topic(context, query.topic)
    may_read = await context.may(Operation.READ, ResourceType.TOPIC, query.topic)
    indexes, paging = page_of(sorted(found.partitions), query.page, PARTITIONS)
    shown = replace(found, partitions={index: found.partitions[index] for index in indexes})
    rows = await read_partitions(context.client, shown, with_producers=may_read)
    may_elect = await may_change_cluster(context, Operation.ALTER)
    return PartitionsPage(query.topic, paging, rows, any(row.tiered is not None for row in rows), may_elect)


async def find_topic(context: RequestScope, name: str) -> TopicMetadata:
    return (await context.client.topics([name]))[name]


def summary_of(
    found: TopicMetadata, rows: list[PartitionRow], changed: dict[str, str], rights: TopicRights
) -> TopicPage:
    sizes = [row.total_bytes for row in rows if row.total_bytes is not None]
    return TopicPage(
        found.name,
        uuid_to_text(found.id),
        found.internal,
        len(rows),
        max((len(row.replicas) for row in rows), default=0),
        sum(row.records or 0 for row in rows),
        sum(sizes) if sizes else None,
        _flagged(rows, NO_LEADER),
        _flagged(rows, MISSING),
        _flagged(rows, NOT_PREFERRED),
        changed,
        rights,
    )


def _flagged(rows: list[PartitionRow], flag: str) -> int:
    return sum(flag in row.flags for row in rows)


async def _rights(context: RequestScope, name: str) -> TopicRights:
    return TopicRights(
        await context.may(Operation.READ, ResourceType.TOPIC, name),
        await may_change_topic(context, Operation.WRITE, name),
        await may_change_topic(context, Operation.ALTER, name),
        await may_change_topic(context, Operation.DELETE, name),
        await context.may(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name),
    )


async def _changed(context: RequestScope, rights: TopicRights, name: str) -> dict[str, str]:
    if not rights.see_configs:
        return {}
    settings = await read_settings(context.client, admin.TOPIC, name)
    return {setting.name: setting.shown for setting in settings if setting.is_set}


# -- Consumer groups -----------------------------------------------------------------------------------


class Reader(msgspec.Struct):
    group: str
    type: str
    state: str
    partitions: int
    """Partitions with a committed offset."""
    lag: int
    lag_seconds: float | None


class ReadersPage(msgspec.Struct):
    topic: str
    paging: Paging
    readers: list[Reader]
    age: float
    """Age of the figures in seconds."""
    error: str


@routes.page("/topics/{topic}/groups", needs=topic(Operation.DESCRIBE), template="topic/groups.html")
async def show_readers(context: RequestScope, query: PartitionsQuery) -> ReadersPage:
    """Groups with committed offsets in a topic, furthest behind first, without those that the user may not describe."""
    await find_topic(context, query.topic)
    snapshot = context.cluster.sampler.snapshot
    found = readers_of(snapshot, query.topic)
    names = [reader.group for reader in found]
    allowed = await context.allowed(Operation.DESCRIBE, ResourceType.GROUP, names)
    readers = [reader for reader in found if reader.group in allowed]
    shown, paging = page_of(readers, query.page)
    return ReadersPage(query.topic, paging, shown, snapshot.age, snapshot.error)


def readers_of(snapshot: ClusterSnapshot, name: str) -> list[Reader]:
    found = [
        Reader(group.name, group.type, group.state, len(read.indexes), read.lag, read.lag_seconds)
        for group in snapshot.groups.values()
        for read in group.topics
        if read.topic == name
    ]
    return sorted(found, key=lambda reader: (-(reader.lag_seconds or 0), -reader.lag, reader.group))
