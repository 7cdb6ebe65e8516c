"""Start page: health and activity of the cluster."""

from __future__ import annotations

import msgspec

from barnabas.security.authz import CLUSTER_NAME, Operation, ResourceType
from barnabas.services.console.context import RequestScope
from barnabas.services.console.needs import SHOWN
from barnabas.services.console.pages.alarms import raised_alarms
from barnabas.services.console.pages.list_parts import Freshness, freshness
from barnabas.services.console.routes import NavigationEntry, Routes
from barnabas.services.console.sampling.refresh import totals_of
from barnabas.services.console.sampling.snapshot import BrokerSample, ClusterSnapshot

routes = Routes()

MAX_BROKER_CURVES = 4


class OverviewQuery(msgspec.Struct):
    since: str = "2h"


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
        alarms=len(await raised_alarms(context)),
        curves=await _curves(context) if sees_all else [],
        since=query.since,
    )


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


async def _curves(context: RequestScope) -> list[CurveShown]:
    shown = [
        CurveShown(
            "Records written and committed", ["cluster/in", "cluster/out"], ["in", "out"], "records/s"
        ),
        CurveShown("Lag of all groups", ["cluster/lag"], ["lag"], "records"),
        CurveShown("Lag of the worst group", ["cluster/lag_seconds"], ["lag"], "s"),
        CurveShown("Bytes on disk", ["cluster/bytes"], ["bytes"], "B"),
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
