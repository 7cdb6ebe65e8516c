"""Tables of the demo: results of the pipelines, as in their topics, and progress of the flows."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from barnabas.pipelines.alarms.state import AlarmEvent
from barnabas.pipelines.running.progress import FlowProgress
from examples.demo.results import Results

WIDE = 112  # columns for three tables side by side
NARROW = 76  # columns for two tables side by side, and for a headline of one line
MAX_ROWS = 6
SERVICES = 5
HEADS = 2  # header lines of a table
GAPS = 6  # the headline, the line below it, gaps between tables, and one line for the cursor


def all_tables(
    results: Results,
    alarms: Sequence[AlarmEvent],
    flows: Sequence[FlowProgress],
    width: int,
    height: int,
) -> RenderableType:
    """Tables that fit: a small terminal gets fewer rows and no table of flows."""
    if width >= WIDE:
        rows = min(MAX_ROWS, max(1, height - GAPS - 2 * HEADS - max(len(flows), 1)))
        above = _beside(_pages(results, rows), _searches(results, rows), _services(results))
        return Group(above, "", _beside(_alarms(alarms, max(rows, len(flows))), _flows(flows)))
    if width < NARROW:
        return _one_below_the_other(results, alarms, height)
    room = height - GAPS - 3 * HEADS - SERVICES
    rows = min(MAX_ROWS, max(1, room // 2))
    parts: list[RenderableType] = [
        _beside(_pages(results, rows), _searches(results, rows)),
        "",
        _services(results),
        "",
        _alarms(alarms, min(MAX_ROWS, max(1, room - rows))),
    ]
    if room - 2 * rows > HEADS + len(flows):
        parts += ["", _flows(flows)]
    return Group(*parts)


def _one_below_the_other(results: Results, alarms: Sequence[AlarmEvent], height: int) -> RenderableType:
    room = height - GAPS - 2 - 4 * HEADS - SERVICES  # two headline lines and one more gap
    rows = min(MAX_ROWS, max(1, room // 3))
    tables = (_pages(results, rows), _searches(results, rows), _services(results), _alarms(alarms, rows))
    return Group(*[part for table in tables for part in (table, "")][:-1])


def alarm_text(event: AlarmEvent) -> Text:
    style = "red" if event.status == "fired" else "green"
    return Text(f"{event.alarm} of {event.key} {event.status}", style)


def clock_of(event: AlarmEvent) -> str:
    return time.strftime("%H:%M", time.gmtime(event.at))


def _beside(*tables: Table) -> Table:
    grid = Table.grid(padding=(0, 4))
    for _ in tables:
        grid.add_column(no_wrap=True)
    grid.add_row(*tables)
    return grid


def _pages(results: Results, count: int) -> Table:
    """Pages of the second-to-last minute; the last one is incomplete."""
    found = list(results.latest["activity.pages"].values())
    minute = ["", *sorted({row["minute"] for row in found})][-2:][0]
    table = _table(f"Pages at {minute[11:16]}", "page", "views", "visitors")
    views = sorted((row for row in found if row["minute"] == minute), key=lambda row: -row["views"])
    for row in views[:count]:
        table.add_row(row["page"], f"{row['views']:,}", f"{row['visitors']:,}")
    return table


def _searches(results: Results, count: int) -> Table:
    totals: dict[str, int] = defaultdict(int)
    for row in list(results.latest["activity.searches"].values()):
        totals[row["term"]] += row["count"]
    table = _table("Top searches", "term", "searches")
    for term, number in sorted(totals.items(), key=lambda item: -item[1])[:count]:
        table.add_row(term, f"{number:,}")
    return table


def _services(results: Results) -> Table:
    latest: dict[str, dict[str, Any]] = {}
    for row in list(results.latest["operations.services"].values()):
        if row["minute"] >= latest.get(row["service"], {"minute": ""})["minute"]:
            latest[row["service"]] = row
    table = _table("Services", "service", "requests", "errors", "p50 ms", "p95 ms", "cpu %")
    for service, row in sorted(latest.items()):
        rate = f"{100 * row.get('error_rate', 0):.0f} %"
        numbers = (_number(row, name) for name in ("p50", "p95", "cpu"))
        table.add_row(service, f"{row['requests']:,}", rate, *numbers)
    return table


def _alarms(alarms: Sequence[AlarmEvent], count: int) -> Table:
    table = _table("Alarms", "time", "what", "value")
    for event in alarms[-count:]:
        table.add_row(clock_of(event), alarm_text(event), f"{event.value:.3g}")
    return table


def _flows(flows: Sequence[FlowProgress]) -> Table:
    table = _table("Flows on Spark", "flow", "rows", "rows/s", "behind", "batch")
    for flow in flows:
        behind = "-" if flow.lag is None else f"{flow.lag:,}"
        rate, length = f"{flow.processed_rate:,.0f}", f"{flow.batch_seconds:.1f} s"
        table.add_row(flow.name, f"{flow.rows:,}", rate, behind, length)
    return table


def _number(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    return "-" if value is None else f"{value:.0f}"


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        is_text = index == 0 or column == "what"
        table.add_column(column, justify="left" if is_text else "right", no_wrap=True)
    return table
