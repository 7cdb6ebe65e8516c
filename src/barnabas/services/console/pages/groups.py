"""Groups of all four types: the list, and one group with its members, lag and rebalances."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from heapq import nlargest
from typing import Any, Literal

import msgspec

from barnabas.client import Client
from barnabas.client.group_details import rebalance_history
from barnabas.common.types import TopicPartition
from barnabas.security.authz import Operation, ResourceType
from barnabas.services.console.alarms.conditions import LAG_SECONDS
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import BadInputError, BusyError, ResourceNotFoundError
from barnabas.services.console.groups.members import GroupMembers, describe_members, within
from barnabas.services.console.needs import SHOWN, group
from barnabas.services.console.pages.list_parts import (
    Freshness,
    Paging,
    freshness,
    known_first,
    page_of,
    sparks,
)
from barnabas.services.console.routes import NavigationEntry, Routes
from barnabas.services.console.sampling.end_times import record_times
from barnabas.services.console.sampling.series import group_series
from barnabas.services.console.sampling.snapshot import (
    CLASSIC,
    CONSUMER,
    SHARE,
    STREAMS,
    ClusterSnapshot,
    GroupSample,
    GroupTopic,
)
from barnabas.services.console.turns import ConcurrencyLimit

# -- Exact lag, from the timestamps of the next records of a group -------------------------------------

MAX_EXACT_PARTITIONS = 32
READ_TIMEOUT = 2.0


async def exact_group(client: Client, sample: GroupSample, now_ms: int) -> GroupSample:
    """Exact lag of the partitions with the most lag. Other partitions keep estimates, as do all on a timeout."""
    behind = [row for row in sample.partitions() if row.lag]
    worst = nlargest(MAX_EXACT_PARTITIONS, behind, key=lambda row: row.lag or 0)
    wanted = {TopicPartition(row.topic, row.partition): row.committed for row in worst}
    if not wanted:
        return sample
    try:
        async with asyncio.timeout(READ_TIMEOUT):
            found = await record_times(client, wanted)
    except TimeoutError:
        return sample
    topics = tuple(_with_times(topic, found, now_ms) for topic in sample.topics)
    known = [topic.lag_seconds for topic in topics if topic.lag_seconds is not None]
    return msgspec.structs.replace(sample, topics=topics, lag_seconds=max(known, default=None))


def _with_times(topic: GroupTopic, times: Mapping[TopicPartition, int], now_ms: int) -> GroupTopic:
    seconds = []
    for index, estimate in zip(topic.indexes, topic.seconds, strict=True):
        written = times.get(TopicPartition(topic.topic, index))
        seconds.append(estimate if written is None else max(0.0, (now_ms - written) / 1000))
    return msgspec.structs.replace(topic, seconds=tuple(seconds))


routes = Routes()

TYPES = (CLASSIC, CONSUMER, SHARE, STREAMS)


class GroupsQuery(msgspec.Struct):
    q: str = ""
    """Part of the name."""
    type: str = ""
    """classic, consumer, share or streams."""
    topic: str = ""
    """Only groups with committed offsets in this topic."""
    sort: str = "lag"
    """name, state, lag (in seconds), records or rate."""
    page: int = 1


class GroupRow(msgspec.Struct):
    name: str
    type: str
    state: str
    topics: int
    lag: int | None
    lag_seconds: float | None
    rate: float | None
    """Records committed per second."""
    coordinator: int
    spark: str
    """Lag in records over two hours, as the path of a 90 by 22 SVG."""


class GroupsPage(msgspec.Struct):
    figures: Freshness
    q: str
    type: str
    topic: str
    sort: str
    types: list[str]
    paging: Paging
    groups: list[GroupRow]
    lag_limit: int
    """Seconds of lag at which an alarm fires."""


_SORTS: dict[str, Callable[[GroupSample], Any]] = {
    "name": lambda group: group.name,
    "state": lambda group: (group.state, group.name),
    "lag": lambda group: (*known_first(group.lag_seconds), *known_first(group.lag), group.name),
    "records": lambda group: (*known_first(group.lag), group.name),
    "rate": lambda group: (*known_first(group.rate), group.name),
}


@routes.page(
    "/groups",
    needs=SHOWN,
    template="groups/list.html",
    entry=NavigationEntry("Groups", "g", 20, "groups", "Data"),
)
async def list_groups(context: RequestScope, query: GroupsQuery) -> GroupsPage:
    """Groups that the user may describe, fifty per page, largest lag first."""
    if query.sort not in _SORTS:
        raise BadInputError(f"Groups are sorted by {', '.join(_SORTS)}", "sort")
    if query.type and query.type not in TYPES:
        raise BadInputError(f"The types of groups are {', '.join(TYPES)}", "type")
    if query.topic:
        await context.demand(Operation.DESCRIBE, ResourceType.TOPIC, query.topic)
    snapshot = context.cluster.sampler.snapshot
    fitting = [each for each in snapshot.groups.values() if _fits(each, query)]
    allowed = await context.allowed(Operation.DESCRIBE, ResourceType.GROUP, [each.name for each in fitting])
    found = sorted((each for each in fitting if each.name in allowed), key=_SORTS[query.sort])
    shown, paging = page_of(found, query.page)
    series = [group_series(each.name, "lag") for each in shown]
    paths = await sparks(context.cluster.history, series, snapshot.taken_ms)
    return GroupsPage(
        *(freshness(snapshot), query.q, query.type, query.topic, query.sort, list(TYPES), paging),
        groups=[_row(each, paths[name]) for each, name in zip(shown, series, strict=True)],
        lag_limit=LAG_SECONDS,
    )


def _fits(sample: GroupSample, query: GroupsQuery) -> bool:
    if query.type and sample.type != query.type:
        return False
    if query.topic and not any(each.topic == query.topic for each in sample.topics):
        return False
    return query.q.strip().lower() in sample.name.lower()


def _row(sample: GroupSample, spark: str) -> GroupRow:
    return GroupRow(
        *(sample.name, sample.type, sample.state, len(sample.topics), sample.lag, sample.lag_seconds),
        *(sample.rate, sample.coordinator, spark),
    )


class GroupQuery(msgspec.Struct):
    group: str
    topic: str = ""
    """Only partitions of this topic."""
    since: str = "2h"
    page: int = 1
    """Page of the partitions."""
    members: int = 1
    """Page of the members."""
    tab: Literal["lag", "members"] = "lag"


class GroupPartitionRow(msgspec.Struct):
    topic: str
    partition: int
    committed: int
    end: int
    lag: int | None
    seconds: float | None
    """Age of the oldest unprocessed record."""
    member: str
    """Current owner of the partition."""
    host: str


class TopicLag(msgspec.Struct):
    topic: str
    partitions: int
    lag: int
    lag_seconds: float | None


class GroupPage(msgspec.Struct):
    figures: Freshness
    name: str
    type: str
    state: str
    protocol: str
    coordinator: int
    lag: int | None
    lag_seconds: float | None
    rate: float | None
    topics: list[TopicLag]
    topic: str
    partitions: list[GroupPartitionRow]
    """Furthest behind first."""
    paging: Paging
    left_out: int
    """Number of topics with committed offsets that the user may not describe."""
    members: GroupMembers
    members_paging: Paging
    series: list[str]
    """Series of the lag chart."""
    lag_series: str
    seconds_series: str
    since: str
    lag_limit: int
    """Seconds of lag at which an alarm fires."""
    written: float | None
    """Records per second written to the group's topics."""
    caught_up_seconds: float | None
    """Time until the lag is zero at current rates; None if the group does not catch up, or without rates."""
    rate_series: str
    sparks: dict[str, str]
    """Two hours of the group's series, as paths of a 90 by 22 SVG."""
    assignor: str


PARTITIONS = 100
"""Per page."""
MAX_CURVES = 6


@routes.page("/groups/{group}", needs=group(Operation.DESCRIBE), template="groups/one.html")
async def show_group(context: RequestScope, query: GroupQuery) -> GroupPage:
    """One group of any type: members and assignments, lag by partition in records and seconds, lag chart. Topics that
    the user may not describe are left out."""
    snapshot = context.cluster.sampler.snapshot
    sample = snapshot.groups.get(query.group)
    if sample is None:
        raise ResourceNotFoundError(
            f"Group {query.group!r} does not exist, or was created in the last few seconds"
        )
    members = await describe_members(context.client, sample.name, sample.type)
    topics = await _described(context, sample, members)
    left_out = sum(each.topic not in topics for each in sample.topics)
    members = within(members, topics)
    sample = await exact_group(context.client, sample.within(topics), snapshot.taken_ms)
    owners = {tp: (member.id, member.host) for member in members.members for tp in member.partitions}
    rows = [
        GroupPartitionRow(*row, *owners.get((row.topic, row.partition), ("", "")))
        for row in sample.partitions()
        if not query.topic or row.topic == query.topic
    ]
    rows.sort(key=lambda row: (-(row.seconds or 0), -(row.lag or 0), row.topic, row.partition))
    shown, paging = page_of(rows, query.page, PARTITIONS)
    members.members, members_paging = page_of(members.members, query.members)
    written = _written(snapshot, sample)
    series = {name: group_series(sample.name, name) for name in ("lag", "lag_seconds", "rate")}
    paths = await sparks(context.cluster.history, series.values(), snapshot.taken_ms)
    lags = [
        TopicLag(each.topic, len(each.indexes), each.lag, each.lag_seconds)
        for each in sorted(sample.topics, key=lambda each: -each.lag)
    ]
    return GroupPage(
        figures=freshness(snapshot),
        name=sample.name,
        type=sample.type,
        state=members.state or sample.state,
        protocol=sample.protocol,
        coordinator=sample.coordinator,
        lag=sample.lag,
        lag_seconds=sample.lag_seconds,
        rate=sample.rate,
        topics=lags,
        topic=query.topic,
        partitions=shown,
        paging=paging,
        left_out=left_out,
        members=members,
        members_paging=members_paging,
        series=[group_series(sample.name, each.topic, "lag") for each in lags[:MAX_CURVES]],
        lag_series=group_series(sample.name, "lag"),
        seconds_series=group_series(sample.name, "lag_seconds"),
        since=query.since,
        lag_limit=LAG_SECONDS,
        written=written,
        caught_up_seconds=_caught_up(sample, written),
        rate_series=series["rate"],
        sparks={name: paths[each] for name, each in series.items()},
        assignor=members.assignor,
    )


def _written(snapshot: ClusterSnapshot, sample: GroupSample) -> float | None:
    topics = [snapshot.topics[each.topic] for each in sample.topics if each.topic in snapshot.topics]
    rates = [topic.rate_in for topic in topics if topic.rate_in is not None]
    return sum(rates) if rates else None


def _caught_up(sample: GroupSample, written: float | None) -> float | None:
    """Lag by the difference of the rates: 0 without lag, None if the lag does not shrink."""
    if not sample.lag:
        return 0.0 if sample.lag == 0 else None
    if sample.rate is None or written is None or sample.rate <= written:
        return None
    return sample.lag / (sample.rate - written)


async def _described(context: RequestScope, sample: GroupSample, members: GroupMembers) -> set[str]:
    """Topics of the group that the user may describe; brokers filter them the same way."""
    assigned = {each.topic for member in members.members for each in member.assigned}
    names = assigned | {each.topic for each in sample.topics}
    return await context.allowed(Operation.DESCRIBE, ResourceType.TOPIC, names)


class RebalancesQuery(msgspec.Struct):
    group: str
    hours: float = 24.0


class RebalanceRow(msgspec.Struct):
    timestamp: int
    generation: int | None
    """Generation or epoch; None if the group was deleted or changed its type."""
    members: int | None
    why: str


class RebalancesPage(msgspec.Struct):
    group: str
    type: str
    hours: float
    rebalances: list[RebalanceRow]
    """Newest first."""


MAX_HOURS = 24.0 * 7
HISTORY_TIMEOUT = 10.0
_reading = ConcurrencyLimit(4, 2, "Records of other groups are read now; ask again in some seconds")


@routes.page("/groups/{group}/rebalances", needs=group(Operation.DESCRIBE), template="groups/rebalances.html")
async def show_rebalances(context: RequestScope, query: RebalancesQuery) -> RebalancesPage:
    """Rebalances of a group, from the records of its coordinator; Barnabas also records the reason."""
    sample = context.cluster.sampler.snapshot.groups.get(query.group)
    if not 0 < query.hours <= MAX_HOURS:
        raise BadInputError(f"Ask for more than 0 and at most {MAX_HOURS:g} hours", "hours")
    try:
        # Read with the console's own login: the records cover all groups, and only those of this one are shown.
        with _reading.take(context.user.name):
            async with asyncio.timeout(HISTORY_TIMEOUT):
                found = await rebalance_history(context.cluster.client, query.group, query.hours)
    except TimeoutError:
        raise BusyError(
            f"The records of the last {query.hours:g} hours were not read within {HISTORY_TIMEOUT:g} seconds; "
            "ask for fewer"
        ) from None
    rows = [RebalanceRow(*each) for each in reversed(found)]
    return RebalancesPage(query.group, sample.type if sample else "", query.hours, rows)
