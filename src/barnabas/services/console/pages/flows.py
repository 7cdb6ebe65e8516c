"""Pipelines, connectors and ingest agents, from their reports in `__barnabas_status`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from barnabas.client import CONNECT_TOPIC, ConnectorAction, request_connector
from barnabas.client.status import STATUS_TOPIC, Kind, ProcessStatus, StatusPart, forget_status
from barnabas.security.authz import Operation, ResourceType
from barnabas.services.console.administration.rights import may_change_topic
from barnabas.services.console.alarms.conditions import LAG_SECONDS
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import ResourceNotFoundError, StaleError
from barnabas.services.console.history.curve import Curve, even_curve
from barnabas.services.console.needs import topic_named
from barnabas.services.console.pages.lineage import Lineage, lineage_of
from barnabas.services.console.pages.list_parts import SPARK_MS, SPARK_POINTS, spark
from barnabas.services.console.rendering import quote
from barnabas.services.console.routes import ActionResult, NavigationEntry, Routes
from barnabas.services.console.statuses import StatusBoard, StatusPoint, rows_of

routes = Routes()

READS = topic_named(Operation.READ, STATUS_TOPIC)
CHART_WIDTH, CHART_HEIGHT = 300, 60
MAX_DRAWN = 300
ENDED = ("stopped", "failed", "lost")
PATHS: dict[str, str] = {"pipeline": "/pipelines", "connector": "/connectors", "agent": "/agents"}


class ListQuery(msgspec.Struct):
    find: str = ""
    """Part of the name."""


class PipelinesQuery(ListQuery):
    view: Literal["lineage", "list"] = "lineage"


class NameQuery(msgspec.Struct):
    name: str


class ForgetForm(msgspec.Struct):
    kind: Literal["pipeline", "connector", "agent"]
    name: str


class FlowCurve(msgspec.Struct):
    """Line of a chart as an SVG path, with its maximum, newest value and time range."""

    path: str
    highest: float
    newest: float | None
    since: int
    until: int


class Flow(msgspec.Struct):
    name: str
    state: str
    reason: str
    rows: float
    """Rows since the start of the run; records for agents."""
    rate: float | None
    """Rows per second in the last minute."""
    lag: int | None
    """Lag in records; in bytes for files."""
    late: float | None
    """Late rows dropped because their window was closed."""
    counts: dict[str, int | float]
    kind: str
    topics: list[str]
    groups: list[str]
    broken: dict[str, int]
    """Rows that violated a quality rule, by rule."""
    watermark: str
    rates: FlowCurve | None = None
    lags: FlowCurve | None = None


class Work(msgspec.Struct):
    """A pipeline, a connector or an agent."""

    kind: str
    name: str
    state: str
    host: str
    process: int
    started: int
    updated: int
    age: float
    """Seconds since the last report."""
    error: str
    alarms: list[str]
    """Firing alarms."""
    counts: dict[str, int | float]
    rate: float | None
    lag: int | None
    late: float
    broken: int
    flows: list[Flow]
    lag_seconds: float | None = None
    """Lag in time of the worst of its groups that the user may describe."""
    spark: str = ""
    """Rows per second over two hours, as the path of a 90 by 22 SVG."""


class WorksPage(msgspec.Struct):
    works: list[Work]
    taken_ms: int
    """Time at which the reports were read."""
    error: str


class PipelinesPage(WorksPage):
    lineage: Lineage
    view: Literal["lineage", "list"]
    lag_limit: int
    """Seconds of lag at which an alarm fires."""


class WorkPage(msgspec.Struct):
    work: Work
    ended: bool
    error: str
    may_control: bool = False
    """True if the user may pause, resume and restart the connector."""


@routes.page(
    "/pipelines",
    needs=READS,
    template="flows/pipelines.html",
    entry=NavigationEntry("Pipelines", "p", 30, "pipelines", "Processing"),
)
async def list_pipelines(context: RequestScope, query: PipelinesQuery) -> PipelinesPage:
    """Pipelines: lineage, state, throughput, lag, late rows, quality violations and alarms."""
    board, snapshot = context.cluster.statuses, context.cluster.sampler.snapshot
    page = _list(board, "pipeline", query)
    groups = {group for work in page.works for flow in work.flows for group in flow.groups}
    seen = await context.allowed(Operation.DESCRIBE, ResourceType.GROUP, groups & snapshot.groups.keys())
    shown = {work.name for work in page.works}
    statuses = [each for each in board.current("pipeline") if each.name in shown]
    for work, status in zip(page.works, statuses, strict=True):
        named = [group for flow in work.flows for group in flow.groups if group in seen]
        lags = [snapshot.groups[group].lag_seconds for group in named]
        work.lag_seconds = max((each for each in lags if each is not None), default=None)
        work.spark = spark(_rates(board, status))
    lineage = await lineage_of(context, statuses)
    return PipelinesPage(page.works, page.taken_ms, page.error, lineage, query.view, LAG_SECONDS)


def _rates(board: StatusBoard, status: ProcessStatus) -> Curve:
    """Rows per second of all flows of a process together."""
    now = time.time_ns() // 1_000_000
    step = SPARK_MS // SPARK_POINTS
    curves = [
        even_curve(_known(board.trend(status, part)), now - SPARK_MS, now, step) for part in status.parts
    ]
    columns = zip(*(curve.values for curve in curves), strict=True)
    sums = [
        sum(known) if (known := [each for each in column if each is not None]) else None for column in columns
    ]
    return Curve(curves[0].times if curves else [], sums)


def _known(points: Sequence[StatusPoint]) -> Iterator[tuple[int, float]]:
    return ((point.ms, point.rate) for point in points if point.rate is not None)


@routes.page("/pipelines/{name}", needs=READS, template="flows/pipeline.html")
async def show_pipeline(context: RequestScope, query: NameQuery) -> WorkPage:
    """One pipeline: flows with throughput, lag and late rows, quality rules and alarms."""
    return _show(context.cluster.statuses, "pipeline", query.name)


@routes.page(
    "/connectors",
    needs=READS,
    template="flows/connectors.html",
    entry=NavigationEntry("Connectors", "c", 32, "connectors", "Processing"),
)
async def list_connectors(context: RequestScope, query: ListQuery) -> WorksPage:
    """Connectors: state, rows moved and rejected, lag and restarts."""
    return _list(context.cluster.statuses, "connector", query)


@routes.page("/connectors/{name}", needs=READS, template="flows/connector.html")
async def show_connector(context: RequestScope, query: NameQuery) -> WorkPage:
    """One connector: source, target, throughput and last error."""
    page = _show(context.cluster.statuses, "connector", query.name)
    page.may_control = await may_change_topic(context, Operation.WRITE, CONNECT_TOPIC)
    return page


CONTROLS = READS & topic_named(Operation.WRITE, CONNECT_TOPIC)


@routes.action("/connectors/{name}/pause", needs=CONTROLS)
async def pause_connector(context: RequestScope, form: NameQuery) -> ActionResult:
    """Pause a connector after its current batch. It stays paused over restarts of its process until it is resumed."""
    return await _request(context, form.name, "pause", "pauses after its current batch")


@routes.action("/connectors/{name}/resume", needs=CONTROLS)
async def resume_connector(context: RequestScope, form: NameQuery) -> ActionResult:
    """Resume a paused connector."""
    return await _request(context, form.name, "resume", "resumes")


@routes.action("/connectors/{name}/restart", needs=CONTROLS)
async def restart_connector(context: RequestScope, form: NameQuery) -> ActionResult:
    """Restart a connector at its last committed position, also one that has failed for good."""
    return await _request(context, form.name, "restart", "is restarted")


async def _request(context: RequestScope, name: str, kind: ConnectorAction, effect: str) -> ActionResult:
    """Requests travel in `__barnabas_connect`, so they work for connectors on any machine."""
    status = _find(context.cluster.statuses, "connector", name)
    if status.state in ("lost", "stopped"):
        raise StaleError(f"{name} is {status.state}: no process would carry this out; start it first")
    await request_connector(context.client, name, kind, context.user.name)
    return ActionResult(f"Requested: {name} {effect}, within seconds.", f"/connectors/{quote(name)}")


@routes.page(
    "/agents",
    needs=READS,
    template="flows/agents.html",
    entry=NavigationEntry("Agents", "n", 34, "agents", "Processing"),
)
async def list_agents(context: RequestScope, query: ListQuery) -> WorksPage:
    """Ingest agents: state, hosts, and for each source its records, lag and target topics."""
    return _list(context.cluster.statuses, "agent", query)


@routes.action("/reports/{kind}/{name}/forget", needs=READS & topic_named(Operation.WRITE, STATUS_TOPIC))
async def forget_report(context: RequestScope, form: ForgetForm) -> ActionResult:
    """Remove the last report of a pipeline, connector or agent that has ended and will not run again."""
    work = _find(context.cluster.statuses, form.kind, form.name)
    if work.state not in ENDED:
        raise StaleError(f"{form.name} reports that it is {work.state}: stop it first")
    await forget_status(context.client, form.kind, form.name)
    await context.cluster.statuses.refresh()
    return ActionResult(f"The report of {form.name} is removed.", PATHS[form.kind])


def _list(board: StatusBoard, kind: Kind, query: ListQuery) -> WorksPage:
    found = [each for each in board.current(kind) if query.find.lower() in each.name.lower()]
    return WorksPage([work_of(board, each) for each in found], board.taken_ms, board.error)


def _show(board: StatusBoard, kind: Kind, name: str) -> WorkPage:
    work = work_of(board, _find(board, kind, name), with_curves=True)
    return WorkPage(work, work.state in ENDED, board.error)


def _find(board: StatusBoard, kind: Kind, name: str) -> ProcessStatus:
    for status in board.current(kind):
        if status.name == name:
            return status
    raise ResourceNotFoundError(f"No {kind} called {name!r} has reported to {STATUS_TOPIC}")


def work_of(board: StatusBoard, status: ProcessStatus, *, with_curves: bool = False) -> Work:
    flows = [_flow(board, status, part, with_curves) for part in status.parts]
    lags = [flow.lag for flow in flows if flow.lag is not None]
    rates = [flow.rate for flow in flows if flow.rate is not None]
    return Work(
        status.kind,
        status.name,
        status.state,
        status.host,
        status.process,
        status.started,
        status.updated,
        max(0.0, time.time() - status.updated / 1000),
        status.error,
        status.alarms,
        status.counts,
        sum(rates) if rates else None,
        sum(lags) if lags else None,
        sum(flow.late or 0 for flow in flows),
        sum(sum(flow.broken.values()) for flow in flows),
        flows,
    )


def _flow(board: StatusBoard, status: ProcessStatus, part: StatusPart, with_curves: bool) -> Flow:
    found = Flow(
        part.name,
        status.state if status.state in ENDED else part.state,
        part.reason,
        rows_of(status, part),
        None if status.state in ENDED else board.rate(status, part),
        part.lag,
        part.counts.get("late"),
        part.counts,
        part.kind,
        part.topics,
        part.groups,
        part.broken,
        part.watermark,
    )
    if with_curves:
        points = board.trend(status, part)
        found.rates = curve_of([(point.ms, point.rate) for point in points])
        found.lags = curve_of([(point.ms, point.lag) for point in points])
    return found


def curve_of(points: Sequence[tuple[int, float | None]]) -> FlowCurve | None:
    """SVG path with gaps at missing values; None with fewer than two points."""
    step = max(1, len(points) // MAX_DRAWN)
    drawn = points[::-1][::step][::-1]
    known = [value for _, value in drawn if value is not None]
    if len(known) < 2:
        return None
    since, until, highest = drawn[0][0], drawn[-1][0], max(*known, 1e-9)
    parts, pen = [], "M"
    for ms, value in drawn:
        if value is None:
            pen = "M"
            continue
        x = (ms - since) * CHART_WIDTH / max(1, until - since)
        parts.append(f"{pen}{x:.1f} {CHART_HEIGHT - value * (CHART_HEIGHT - 2) / highest:.1f}")
        pen = "L"
    return FlowCurve(" ".join(parts), max(known), drawn[-1][1], since, until)
