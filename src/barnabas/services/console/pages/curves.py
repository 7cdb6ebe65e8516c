"""Recorded time series, for charts and API clients."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from urllib.parse import unquote

import msgspec

from barnabas.common.durations import seconds_of
from barnabas.common.types import TopicPartition
from barnabas.security.authz import CLUSTER_NAME, Operation, ResourceType
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import BadInputError
from barnabas.services.console.history.curve import Curve
from barnabas.services.console.needs import SHOWN
from barnabas.services.console.routes import Event, Routes
from barnabas.services.console.sampling.series import with_past
from barnabas.services.console.sampling.snapshot import ClusterSnapshot, Totals

routes = Routes()

MAX_SERIES = 16
SHORTEST, LONGEST = 60.0, 30 * 86_400.0
MAX_POINTS = 2000


class CurvesQuery(msgspec.Struct):
    series: list[str] = []
    """For example `topic/orders/in`, `group/billing/lag`, `cluster/in`; names are URL-encoded."""
    since: str = "2h"
    """Time range up to now: 15m, 2h, 1d, 30d."""
    points: int = 240


class Curves(msgspec.Struct):
    series: list[str]
    since: str
    times: list[int]
    """Epoch milliseconds."""
    curves: list[list[float | None]]
    """One list per series, with one value per time."""


@routes.page("/curves", needs=SHOWN, template="curves/one.html")
async def show_curves(context: RequestScope, query: CurvesQuery) -> Curves:
    """Recorded values of series at regular intervals. Needs DESCRIBE on the resources of the series."""
    span_ms = int(_span(query.since) * 1000)
    series = [name for text in query.series for name in text.split()]
    await _check(context, series)
    until = int(time.time() * 1000)
    points = min(max(query.points, 1), MAX_POINTS)
    found = await context.cluster.history.read_many(series, until - span_ms, until, points)
    curves = [await _complete(context, name, found[name], until) for name in series]
    times = curves[0].times if curves else []
    return Curves(series, query.since, times, [curve.values for curve in curves])


def _span(since: str) -> float:
    try:
        return min(max(seconds_of(since), SHORTEST), LONGEST)
    except ValueError as error:
        raise BadInputError(str(error), "since") from None


async def _check(context: RequestScope, series: list[str]) -> None:
    if len(series) > MAX_SERIES:
        raise BadInputError(f"Ask for at most {MAX_SERIES} series at once", "series")
    for name in series:
        kind, *rest = name.split("/")
        if kind in ("topic", "group") and rest:
            resource = ResourceType.TOPIC if kind == "topic" else ResourceType.GROUP
            await context.demand(Operation.DESCRIBE, resource, unquote(rest[0]))
            if kind == "group" and len(rest) > 2:  # group/billing/orders/lag
                await context.demand(Operation.DESCRIBE, ResourceType.TOPIC, unquote(rest[1]))
        elif kind in ("cluster", "broker"):
            await context.demand(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
        else:
            text = f"unknown series {name!r} (examples: cluster/in, topic/orders/in, group/billing/lag)"
            raise BadInputError(text, "series")


async def _complete(context: RequestScope, series: str, curve: Curve, until_ms: int) -> Curve:
    """Fill in rates from before the start of the console, derived from the cluster's data."""
    if not curve.values or curve.values[0] is not None:
        return curve
    partitions = _partitions(context.cluster.sampler.snapshot, series)
    past = await context.cluster.sampler.past.of(partitions, curve.times[0], until_ms)
    return with_past(curve, past)


def _partitions(snapshot: ClusterSnapshot, series: str) -> list[TopicPartition]:
    if series == "cluster/in":
        names = [name for name, topic in snapshot.topics.items() if not topic.internal]
    elif series.startswith("topic/") and series.endswith("/in"):
        names = [unquote(series.split("/")[1])]
    else:
        return []
    return [
        TopicPartition(name, partition.index)
        for name in names
        if name in snapshot.topics
        for partition in snapshot.topics[name].layout
    ]


class LiveQuery(msgspec.Struct):
    pass


class Tick(msgspec.Struct):
    taken_ms: int
    error: str
    records_per_second: float | None
    lag: int | None


@routes.stream("/live", needs=SHOWN)
async def watch(context: RequestScope, query: LiveQuery) -> AsyncIterator[Event]:
    """A `tick` event per refresh of the figures, so that pages know when to reload; totals require DESCRIBE on the
    cluster."""
    sees_all = await context.may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    async for snapshot in context.cluster.sampler.ticks():
        totals = snapshot.totals if sees_all else Totals()
        yield Event("tick", Tick(snapshot.taken_ms, snapshot.error, totals.rate_in, totals.lag))
