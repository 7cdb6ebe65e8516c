"""Shared parts of lists and overviews: age of the figures, paging, sparklines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from barnabas.security.authz import Operation, ResourceType
from barnabas.services.console.context import RequestScope
from barnabas.services.console.history.curve import Curve
from barnabas.services.console.history.history import History
from barnabas.services.console.needs import SHOWN
from barnabas.services.console.rendering import duration, number, quote
from barnabas.services.console.routes import Routes
from barnabas.services.console.sampling.snapshot import ClusterSnapshot

# -- Search on any page (`/`): go to a topic, group or page by part of its name ------------------------

routes = Routes()

MAX_RESULTS = 20


class SearchQuery(msgspec.Struct):
    q: str = ""


class SearchResult(msgspec.Struct):
    kind: str
    name: str
    url: str
    icon: str = ""
    """Symbol of icons.svg."""
    state: str = ""
    """The figure that matters: records per second, or lag."""


class SearchResults(msgspec.Struct):
    q: str
    found: list[SearchResult]
    commands: list[SearchResult]
    """What can be done with the best match."""


@routes.page("/goto", needs=SHOWN, template="places.html")
async def search(context: RequestScope, query: SearchQuery) -> SearchResults:
    """Pages, topics and groups whose name contains `q`, shortest first, and commands for the best topic."""
    pages = [
        SearchResult(
            *(
                "page",
                entry.word,
                route.path if route.outside else context.url(route.cluster_path),
                entry.icon,
            )
        )
        for entry, route in context.table.entries
        if _fits(query.q, entry.word)
    ]
    if not query.q.strip():
        return SearchResults(query.q, pages, [])
    snapshot = context.cluster.sampler.snapshot
    topics = await _matches(context, query.q, "topic", ResourceType.TOPIC, snapshot.topics)
    groups = await _matches(context, query.q, "group", ResourceType.GROUP, snapshot.groups)
    for each in topics:
        each.state = _rate(snapshot.topics[each.name].rate_in)
    for each in groups:
        each.state = _behind(snapshot.groups[each.name].lag_seconds)
    found = sorted(topics + groups, key=lambda match: len(match.name))
    return SearchResults(query.q, (pages + found)[:MAX_RESULTS], _commands(topics[:1]))


def _rate(value: float | None) -> str:
    return "" if value is None else f"{number(value)}/s"


def _behind(seconds: float | None) -> str:
    return "" if seconds is None else f"{duration(seconds)} behind"


def _commands(topics: Iterable[SearchResult]) -> list[SearchResult]:
    return [
        SearchResult("command", f"{word} {topic.name}", f"{topic.url}/{path}", icon)
        for topic in topics
        for word, path, icon in (
            ("Search records of", "records", "search"),
            ("Tail", "tail", "play"),
            ("Produce to", "produce", "plus"),
        )
    ]


async def _matches(
    context: RequestScope, part: str, kind: str, resource: ResourceType, names: Iterable[str]
) -> list[SearchResult]:
    fitting = [name for name in names if _fits(part, name)]
    allowed = await context.allowed(Operation.DESCRIBE, resource, fitting)
    shown = sorted(allowed, key=lambda name: (len(name), name))[:MAX_RESULTS]
    return [SearchResult(kind, name, context.url(f"/{kind}s/{quote(name)}"), f"{kind}s") for name in shown]


def _fits(part: str, name: str) -> bool:
    return part.lower() in name.lower()


T = TypeVar("T")

ROWS = 50
SPARK_POINTS = 24
SPARK_MS = 2 * 3_600_000
SPARK_WIDTH, SPARK_HEIGHT = 90, 22


class Freshness(msgspec.Struct):
    """Age of the figures of a page."""

    taken_ms: int
    """0 before the first refresh."""
    age_seconds: float
    took_seconds: float
    """Duration of the last refresh."""
    error: str


def freshness(snapshot: ClusterSnapshot) -> Freshness:
    return Freshness(snapshot.taken_ms, round(snapshot.age, 1), round(snapshot.seconds, 3), snapshot.error)


class Paging(msgspec.Struct):
    page: int
    """Page number, from 1."""
    pages: int
    rows: int
    """Rows of all pages."""


def page_of(rows: Sequence[T], page: int, size: int = ROWS) -> tuple[list[T], Paging]:
    """Return a page of rows; past the end, the last page, since rows may have disappeared."""
    pages = max(1, -(-len(rows) // size))
    page = min(max(page, 1), pages)
    return list(rows[(page - 1) * size : page * size]), Paging(page, pages, len(rows))


def known_first(value: float | None) -> tuple[bool, float]:
    """Sort key: largest first, unknown values last."""
    return value is None, -(value or 0.0)


async def sparks(history: History, series: Iterable[str], now_ms: int) -> dict[str, str]:
    """Sparklines of the last two hours; empty without data."""
    curves = await history.read_many(series, now_ms - SPARK_MS, now_ms, SPARK_POINTS)
    return {name: spark(curve) for name, curve in curves.items()}


def spark(curve: Curve) -> str:
    """Return the `d` attribute of an SVG path: 90 by 22, from 0 to the largest value."""
    known = [value for value in curve.values if value is not None]
    if len(known) < 2:
        return ""
    top = max(known) or 1.0
    step = SPARK_WIDTH / max(1, len(curve.values) - 1)
    path, pen = [], "M"
    for at, value in enumerate(curve.values):
        if value is None:
            pen = "M"
            continue
        path.append(f"{pen}{at * step:.0f} {SPARK_HEIGHT - 1 - value / top * (SPARK_HEIGHT - 2):.0f}")
        pen = "L"
    return "".join(path)
