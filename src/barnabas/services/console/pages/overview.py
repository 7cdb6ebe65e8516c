"""Start page: health and activity of the cluster."""

from __future__ import annotations

import time
from typing import Literal

import msgspec

from barnabas.client.status import STATUS_TOPIC
from barnabas.security.authz import CLUSTER_NAME, Operation, ResourceType
from barnabas.services.console.alarms.conditions import LAG_SECONDS
from barnabas.services.console.alarms.tracker import Raised
from barnabas.services.console.context import RequestScope
from barnabas.services.console.needs import SHOWN
from barnabas.services.console.pages.alarms import alarm_url, raised_alarms
from barnabas.services.console.pages.cluster.dead_letters import is_named_so
from barnabas.services.console.pages.list_parts import Freshness, freshness, known_first, sparks
from barnabas.services.console.routes import NavigationEntry, Routes
from barnabas.services.console.sampling.refresh import totals_of
from barnabas.services.console.sampling.series import group_series, topic_series
from barnabas.services.console.sampling.snapshot import BrokerSample, ClusterSnapshot, TopicSample

routes = Routes()

MAX_BROKER_CURVES = 4
WORST_CURVES = 3
LISTED = 5
"""Groups behind and busiest topics."""
SPARKS = ("cluster/in", "cluster/lag_seconds", "cluster/bytes")


class OverviewQuery(msgspec.Struct):
    since: str = "2h"
    language: Literal["python", "java", "go", "node"] = "python"
    """Language of the example before the first record."""


class BrokerSummaryRow(msgspec.Struct):
    id: int
    address: str
    rack: str
    is_controller: bool
    leaders: int
    replicas: int
    size: int
    error: str


class WorstGroup(msgspec.Struct):
    group: str
    lag: int
    seconds: float | None


class CurveShown(msgspec.Struct):
    title: str
    series: list[str]
    labels: list[str]
    unit: str
    has_limit: bool = False
    """True for lag in time, which has an alarm."""


class FiringAlarm(msgspec.Struct):
    name: str
    severity: str
    text: str
    action: str
    since_ms: int
    seconds: float
    """Time since the condition was first met."""
    url: str
    """Page of the topic or group; empty for the cluster."""
    resource: str


class GroupBehind(msgspec.Struct):
    group: str
    topic: str
    """The topic in which it is furthest behind."""
    lag: int
    seconds: float | None


class BusyTopic(msgspec.Struct):
    name: str
    partitions: int
    records_in: float | None
    spark: str


class Pipelines(msgspec.Struct):
    running: int
    known: int


class Overview(msgspec.Struct):
    figures: Freshness
    cluster_id: str
    brokers: list[BrokerSummaryRow]
    topics: int
    partitions: int
    offline: int
    """Partitions without a leader."""
    under_replicated: int
    groups: int
    size: int
    records_in: float | None
    """Records per second."""
    records_out: float | None
    lag: int | None
    worst: WorstGroup | None
    """Group with the largest lag, if the user may describe it."""
    alarms: int
    """Number of firing alarms."""
    curves: list[CurveShown]
    since: str
    worst_alarms: list[FiringAlarm]
    """The first two."""
    lag_limit: int
    """Seconds of lag at which an alarm fires."""
    behind: list[GroupBehind]
    busiest: list[BusyTopic]
    sparks: dict[str, str]
    """Two hours of some series, as paths of a 90 by 22 SVG."""
    produce_p99_ms: float | None
    """Of the slowest broker that serves metrics."""
    loop_busy: float | None
    disk_total: int
    """Bytes of all volumes with log dirs; 0 if brokers do not report it."""
    disk_free: int
    brokers_up: int
    pipelines: Pipelines | None
    """None without READ on the status topic."""
    dead_letters: int | None
    """Records in topics with a name of dead letters; None without such topics."""
    address: str
    """Bootstrap servers, for commands to copy."""
    is_first_run: bool
    """True without any topic but internal ones."""


@routes.page(
    "/", needs=SHOWN, template="overview/cluster.html", entry=NavigationEntry("Overview", "o", 0, "overview")
)
async def show_overview(context: RequestScope, query: OverviewQuery) -> Overview:
    """The cluster at a glance: brokers, partitions at risk, traffic and lag. Users without DESCRIBE on the cluster see
    totals of the topics and groups that they may describe."""
    sees_all = await context.may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    whole = context.cluster.sampler.snapshot
    snapshot = whole if sees_all else await _seen(context, whole)
    totals = snapshot.totals
    raised = await raised_alarms(context)
    names = await context.allowed(Operation.DESCRIBE, ResourceType.TOPIC, snapshot.topics)
    own = [topic for topic in snapshot.topics.values() if topic.name in names and not topic.is_internal]
    behind = await _behind(context, snapshot)
    busiest = await _busiest(context, snapshot, own)
    known = [each for each in snapshot.brokers.values() if each.produce_p99_ms is not None]
    slowest = max(known, key=lambda each: each.produce_p99_ms or 0, default=None)
    dirs = [log_dir for each in snapshot.brokers.values() for log_dir in each.log_dirs if log_dir.total > 0]
    return Overview(
        figures=freshness(snapshot),
        cluster_id=snapshot.cluster_id,
        brokers=[_broker(each, snapshot) for each in snapshot.brokers.values()],
        topics=len(snapshot.topics),
        partitions=totals.partitions,
        offline=totals.offline,
        under_replicated=totals.under_replicated,
        groups=len(snapshot.groups),
        size=totals.size,
        records_in=totals.rate_in,
        records_out=totals.rate_out,
        lag=totals.lag,
        worst=await _worst(context, snapshot),
        alarms=len(raised),
        curves=await _curves(context, behind) if sees_all else [],
        since=query.since,
        worst_alarms=[_alarm(context, each) for each in raised[:2]],
        lag_limit=LAG_SECONDS,
        behind=behind,
        busiest=busiest,
        sparks=await sparks(context.cluster.history, SPARKS, snapshot.taken_ms) if sees_all else {},
        produce_p99_ms=slowest.produce_p99_ms if slowest else None,
        loop_busy=max((each.loop_busy or 0 for each in known), default=None),
        disk_total=sum(each.total for each in dirs),
        disk_free=sum(max(each.usable, 0) for each in dirs),
        brokers_up=sum(not each.error for each in snapshot.brokers.values()),
        pipelines=await _pipelines(context),
        dead_letters=_dead_letters(own),
        address=context.cluster.settings.bootstrap,
        is_first_run=sees_all and not snapshot.is_empty and not own,
    )


def _alarm(context: RequestScope, raised: Raised) -> FiringAlarm:
    alarm, finding = raised.alarm, raised.finding
    since = max(0.0, time.time() - raised.since_ms / 1000)
    url = alarm_url(context, raised)
    words = (alarm.name, alarm.severity.value, finding.text, alarm.action)
    return FiringAlarm(*words, raised.since_ms, since, url, finding.resource)


async def _behind(context: RequestScope, snapshot: ClusterSnapshot) -> list[GroupBehind]:
    """Groups with lag, the largest in time first, that the user may describe."""
    lagging = [group for group in snapshot.groups.values() if group.lag]
    lagging.sort(key=lambda group: (-(group.lag_seconds or 0), -(group.lag or 0)))
    found: list[GroupBehind] = []
    for group in lagging:
        if len(found) == LISTED:
            break
        if await context.may(Operation.DESCRIBE, ResourceType.GROUP, group.name):
            topics = await context.allowed(
                Operation.DESCRIBE, ResourceType.TOPIC, [each.topic for each in group.topics]
            )
            seen = [each for each in group.topics if each.topic in topics]
            worst = max(seen, key=lambda each: (each.lag_seconds or 0, each.lag), default=None)
            if worst is not None:
                found.append(GroupBehind(group.name, worst.topic, group.lag or 0, group.lag_seconds))
    return found


async def _busiest(
    context: RequestScope, snapshot: ClusterSnapshot, topics: list[TopicSample]
) -> list[BusyTopic]:
    shown = sorted(topics, key=lambda topic: (known_first(topic.rate_in), topic.name))[:LISTED]
    series = {topic.name: topic_series(topic.name, "in") for topic in shown}
    paths = await sparks(context.cluster.history, series.values(), snapshot.taken_ms)
    return [
        BusyTopic(topic.name, len(topic.layout), topic.rate_in, paths[series[topic.name]]) for topic in shown
    ]


async def _pipelines(context: RequestScope) -> Pipelines | None:
    if not await context.may(Operation.READ, ResourceType.TOPIC, STATUS_TOPIC):
        return None
    found = context.cluster.statuses.current("pipeline")
    return Pipelines(sum(each.state == "running" for each in found), len(found))


def _dead_letters(topics: list[TopicSample]) -> int | None:
    dead = [topic.records for topic in topics if is_named_so(topic.name)]
    return sum(dead) if dead else None


async def _seen(context: RequestScope, whole: ClusterSnapshot) -> ClusterSnapshot:
    """Snapshot without brokers, and without topics and groups that the user may not describe."""
    names = await context.allowed(Operation.DESCRIBE, ResourceType.TOPIC, whole.topics)
    read = await context.allowed(Operation.DESCRIBE, ResourceType.GROUP, whole.groups)
    topics = {name: topic for name, topic in whole.topics.items() if name in names}
    groups = {name: group.within(names) for name, group in whole.groups.items() if name in read}
    totals = await totals_of(topics, groups)
    return msgspec.structs.replace(whole, brokers={}, topics=topics, groups=groups, totals=totals)


def _broker(sample: BrokerSample, snapshot: ClusterSnapshot) -> BrokerSummaryRow:
    broker = sample.broker
    used = sum(log_dir.used for log_dir in sample.log_dirs)
    return BrokerSummaryRow(
        *(broker.id, str(broker.address), broker.rack or "", broker.id == snapshot.controller),
        *(sample.leaders, sample.replicas, used, sample.error),
    )


async def _worst(context: RequestScope, snapshot: ClusterSnapshot) -> WorstGroup | None:
    """Group with the largest lag; None if the user may not describe it, as any other group would be misleading."""
    worst = snapshot.totals.worst
    if worst is None or not await context.may(Operation.DESCRIBE, ResourceType.GROUP, worst.group):
        return None
    return WorstGroup(*worst)


async def _curves(context: RequestScope, behind: list[GroupBehind]) -> list[CurveShown]:
    """Two in a row. The second has the groups that are furthest behind."""
    worst = [each.group for each in behind[:WORST_CURVES]]
    series = [group_series(group, "lag_seconds") for group in worst] or ["cluster/lag_seconds"]
    shown = [
        CurveShown("Records", ["cluster/in", "cluster/out"], ["in", "committed"], "records/s"),
        CurveShown("Lag", series, worst or ["lag"], "s", has_limit=True),
        CurveShown("Lag of all groups", ["cluster/lag"], ["lag"], "records"),
        CurveShown("On disk", ["cluster/bytes"], ["bytes"], "B"),
    ]
    names = await context.cluster.history.names("broker/")
    for what, title, unit in (
        ("loop_busy", "Busy event loop", "%"),
        ("p99", "Produce, 99th percentile", "ms"),
    ):
        series = [name for name in names if name.endswith(f"/{what}")][:MAX_BROKER_CURVES]
        if series:
            shown.append(CurveShown(title, series, [name.split("/")[1] for name in series], unit))
    return shown
