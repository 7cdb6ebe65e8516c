"""Lineage: which agents, connectors, mirrors and pipelines write and read which topics and tables, as SVG."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from barnabas.client.status import STATUS_TOPIC, ProcessStatus
from barnabas.security.authz import Operation, ResourceType
from barnabas.services.console.context import RequestScope
from barnabas.services.console.needs import topic_named
from barnabas.services.console.rendering import duration, number, quote
from barnabas.services.console.routes import NavigationEntry, Routes
from barnabas.services.console.statuses import StatusBoard

routes = Routes()

MAX_NODES = 12
"""In a column; more of them would not be readable."""
WIDTH, HEIGHT = 220, 44
"""Of a node."""
ROW, MARGIN = 72, 28
PAGE_WIDTH = 1134
SWEEPS = 4
"""Passes that sort columns by the positions of their neighbours, so that fewer lines cross."""
FAILED = ("failed", "lost")
PATHS = {
    "pipeline": "/pipelines/",
    "connector": "/connectors/",
    "agent": "/agents?find=",
    "mirror": "/mirrors?",
}

NodeKind = Literal["agent", "connector", "mirror", "pipeline", "topic", "table"]
Key = tuple[int, NodeKind, str]
"""Column, kind and name."""
SOURCES, TOPICS, PROCESSING, RESULTS = range(4)
TITLES = ("Agents, connectors, mirrors", "Topics", "Pipelines and connectors", "Tables and topics")


class LineageNode(msgspec.Struct):
    kind: NodeKind
    name: str
    caption: str
    """Rate, or since when it has failed."""
    url: str
    """Empty for tables, and for topics that the user may not describe."""
    is_failed: bool
    x: int = 0
    y: int = 0


class LineageEdge(msgspec.Struct):
    source: str
    target: str
    rate: float | None
    """Rows per second; None if unknown."""
    is_failed: bool
    path: str = ""
    width: float = 1.5


class Lineage(msgspec.Struct):
    titles: list[str]
    nodes: list[LineageNode]
    edges: list[LineageEdge]
    width: int
    height: int
    node_width: int
    hidden: int
    """Nodes that are not shown, because their column is full."""


class LineageQuery(msgspec.Struct):
    around: str = ""
    """Show only what is next to the agents, connectors, mirrors and pipelines with this name."""


class LineagePage(msgspec.Struct):
    lineage: Lineage
    around: str
    names: list[str]
    """Agents, connectors, mirrors and pipelines that have reported."""
    error: str


@routes.page(
    "/lineage",
    needs=topic_named(Operation.READ, STATUS_TOPIC),
    template="flows/lineage.html",
    entry=NavigationEntry("Lineage", "v", 29, "lineage", "Processing"),
)
async def show_lineage(context: RequestScope, query: LineageQuery) -> LineagePage:
    """From agents and connectors over topics and pipelines to tables, with rates, from reports of the last seconds."""
    board = context.cluster.statuses
    every = board.current()
    names = sorted({each.name for each in every})
    return LineagePage(await lineage_of(context, every, query.around), query.around, names, board.error)


async def lineage_of(context: RequestScope, statuses: list[ProcessStatus], around: str = "") -> Lineage:
    """Columns without nodes are left out."""
    graph = _Graph(context.cluster.statuses)
    chosen = [each for each in statuses if not around or each.name == around]
    for status in sorted(chosen, key=lambda each: (each.state not in FAILED, each.name)):
        graph.add(status)
    graph.limit()
    topics = {name for _, kind, name in graph.keys if kind == "topic"}
    seen = await context.allowed(Operation.DESCRIBE, ResourceType.TOPIC, topics)
    nodes = {key: _node(context, graph, key, seen) for key in graph.keys}
    return _drawn(graph, nodes)


class _Graph:
    def __init__(self, board: StatusBoard) -> None:
        self._board = board
        self.statuses: dict[Key, ProcessStatus] = {}
        self.rates: dict[Key, float] = {}
        self.edges: dict[tuple[Key, Key], tuple[float | None, bool]] = {}
        self.keys: list[Key] = []
        self.hidden = 0

    def add(self, status: ProcessStatus) -> None:
        reads = any(part.reads for part in status.parts)
        at = PROCESSING if reads or status.kind == "pipeline" else SOURCES
        key: Key = (at, status.kind, status.name)
        self.statuses[key] = status
        self._found(key)
        for part in status.parts:
            rate = None if status.state in (*FAILED, "stopped") else self._board.rate(status, part)
            self.rates[key] = self.rates.get(key, 0.0) + (rate or 0.0)
            failed = status.state in FAILED or part.state in FAILED
            written = [part.name] if status.kind == "mirror" else part.topics
            for topic in part.reads:
                self._edge((TOPICS, "topic", topic), key, rate, failed)
            for topic in written:
                self._edge(key, (RESULTS if at == PROCESSING else TOPICS, "topic", topic), rate, failed)
            for table in part.tables:
                self._edge(key, (RESULTS, "table", table), rate, failed)

    def _edge(self, source: Key, target: Key, rate: float | None, failed: bool) -> None:
        self._found(source)
        self._found(target)
        known, bad = self.edges.get((source, target), (None, False))
        total = rate if known is None else known + (rate or 0.0)
        self.edges[source, target] = total, bad or failed

    def _found(self, key: Key) -> None:
        if key not in self.keys:
            self.keys.append(key)

    def column(self, at: int) -> list[Key]:
        return [key for key in self.keys if key[0] == at]

    def neighbours(self, key: Key) -> Iterator[Key]:
        for source, target in self.edges:
            if key in (source, target):
                yield target if key == source else source

    def limit(self) -> None:
        """Keep the busiest nodes of a full column, and what fails; then drop what lost its last line."""
        busy = dict.fromkeys(self.keys, 0.0)
        for (source, target), (rate, failed) in self.edges.items():
            for key in (source, target):
                busy[key] = max(busy[key], math.inf if failed else rate or 0.0)
        kept: set[Key] = set()
        for at in range(len(TITLES)):
            kept |= set(sorted(self.column(at), key=lambda key: -busy[key])[:MAX_NODES])
        self.hidden = len(self.keys) - len(kept)
        self.keys = [key for key in self.keys if key in kept]
        self.edges = {pair: value for pair, value in self.edges.items() if kept.issuperset(pair)}


def _node(context: RequestScope, graph: _Graph, key: Key, seen: set[str]) -> LineageNode:
    _, kind, name = key
    status = graph.statuses.get(key)
    if status is not None:
        url = context.url(PATHS[kind] + quote(name))
        return LineageNode(
            kind, name, _caption(status, graph.rates.get(key, 0.0)), url, status.state in FAILED
        )
    if kind == "table":
        return LineageNode(kind, name, "table", "", False)
    sample = context.cluster.sampler.snapshot.topics.get(name) if name in seen else None
    if sample is None:
        return LineageNode(kind, name, "topic", "", False)
    caption = "no rate yet" if sample.rate_in is None else f"{number(sample.rate_in)}/s"
    return LineageNode(kind, name, caption, context.url(f"/topics/{quote(name)}"), False)


def _caption(status: ProcessStatus, rate: float) -> str:
    if status.state in (*FAILED, "stopped"):
        return f"{status.state} {duration(int(max(0.0, time.time() - status.updated / 1000)))} ago"
    return f"{number(rate)} rows/s" if status.state == "running" else status.state


def _drawn(graph: _Graph, nodes: dict[Key, LineageNode]) -> Lineage:
    columns = [column for at in range(len(TITLES)) if (column := graph.column(at))]
    titles = [TITLES[column[0][0]] for column in columns]
    _sort(graph, columns)
    rows = max(map(len, columns), default=0)
    node_width = WIDTH if len(columns) < len(TITLES) else WIDTH - 20
    step = (PAGE_WIDTH - 2 * MARGIN - node_width) / max(1, len(columns) - 1)
    for at, column in enumerate(columns):
        space = ROW * rows / len(column)
        for row, key in enumerate(column):
            nodes[key].x = round(MARGIN + at * step)
            nodes[key].y = round(MARGIN + space * (row + 0.5) - ROW / 2)
    edges = [
        _line(nodes[source], nodes[target], rate, failed, node_width)
        for (source, target), (rate, failed) in graph.edges.items()
    ]
    height = max(0, ROW * rows - (ROW - HEIGHT)) + 2 * MARGIN
    ordered = [nodes[key] for column in columns for key in column]
    return Lineage(titles, ordered, edges, PAGE_WIDTH, height, node_width, graph.hidden)


def _sort(graph: _Graph, columns: list[list[Key]]) -> None:
    """Barycentre method: each node goes to the mean row of its neighbours."""
    for _ in range(SWEEPS):
        rows = {key: row / len(column) for column in columns for row, key in enumerate(column)}
        for column in columns:
            column.sort(key=lambda key: _mean([rows[each] for each in graph.neighbours(key)], rows[key]))
            rows |= {key: row / len(column) for row, key in enumerate(column)}


def _mean(values: Iterable[float], otherwise: float) -> float:
    found = list(values)
    return sum(found) / len(found) if found else otherwise


def _line(
    source: LineageNode, target: LineageNode, rate: float | None, failed: bool, width: int
) -> LineageEdge:
    x1, y1, x2, y2 = source.x + width, source.y + HEIGHT // 2, target.x, target.y + HEIGHT // 2
    middle = (x1 + x2) // 2
    path = f"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"
    thick = 1.5 + 7.5 * min(1.0, (math.log10(1 + (rate or 0.0)) / 3) ** 2)
    return LineageEdge(source.name, target.name, rate, failed, path, round(thick, 1))
