"""What is seen while the demo runs: tables that change in place, or a line now and then where nobody looks."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from barnabas.demo.results import Results
from barnabas.pipelines.alarms.state import AlarmEvent
from barnabas.pipelines.running.progress import FlowProgress

ROWS = 6
TELL_SECONDS = 5.0


class Screen:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4) if console.is_terminal else None
        self._told = 0.0
        self.began = time.monotonic()
        self.first_figures: float | None = None
        """Seconds from the beginning to the first counts."""
        self.alarms: list[AlarmEvent] = []

    def __enter__(self) -> Screen:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def hear(self, events: Sequence[AlarmEvent]) -> None:
        self.alarms += events

    def show(self, sent: int, results: Results, flows: Sequence[FlowProgress]) -> None:
        if self.first_figures is None and results.latest["activity.traffic"]:
            self.first_figures = time.monotonic() - self.began
        if self._live is not None:
            self._live.update(self._picture(sent, results, flows))
        elif time.monotonic() - self._told >= TELL_SECONDS:
            self._told = time.monotonic()
            self._console.print(self._headline(sent, results))

    def _headline(self, sent: int, results: Results) -> Text:
        counted = sum(row["count"] for row in list(results.latest["activity.traffic"].values()))
        firing = len({event.id for event in self.alarms if event.status == "fired"})
        return Text(
            f"{time.monotonic() - self.began:4.0f} s  {sent:,} events written, {counted:,} of the shop counted, "
            f"{firing} alarms fired"
        )

    def _picture(self, sent: int, results: Results, flows: Sequence[FlowProgress]) -> RenderableType:
        return Group(
            self._headline(sent, results),
            Columns([_pages(results), _searches(results), _services(results)], padding=(0, 4)),
            Columns([self._alarm_table(), _flows(flows)], padding=(0, 4)),
        )

    def _alarm_table(self) -> Table:
        table = _table("Alarms", "time", "what", "value")
        for event in self.alarms[-ROWS:]:
            moment = time.strftime("%H:%M", time.gmtime(event.at))
            style = "red" if event.status == "fired" else "green"
            table.add_row(
                moment, Text(f"{event.alarm} of {event.key} {event.status}", style), f"{event.value:.2f}"
            )
        return table


def _pages(results: Results) -> Table:
    rows = list(results.latest["activity.pages"].values())
    minute = max((row["minute"] for row in rows), default="")
    table = _table(f"Pages at {minute[11:16]}", "page", "views", "visitors")
    for row in sorted((row for row in rows if row["minute"] == minute), key=lambda row: -row["views"])[:ROWS]:
        table.add_row(row["page"], f"{row['views']:,}", f"{row['visitors']:,}")
    return table


def _searches(results: Results) -> Table:
    totals: dict[str, int] = defaultdict(int)
    for row in list(results.latest["activity.searches"].values()):
        totals[row["term"]] += row["count"]
    table = _table("Top searches", "term", "searches")
    for term, count in sorted(totals.items(), key=lambda item: -item[1])[:ROWS]:
        table.add_row(term, f"{count:,}")
    return table


def _services(results: Results) -> Table:
    latest: dict[str, dict[str, Any]] = {}
    for row in list(results.latest["operations.services"].values()):
        if row["minute"] >= latest.get(row["service"], {"minute": ""})["minute"]:
            latest[row["service"]] = row
    table = _table("Services", "service", "requests", "errors", "p50 ms", "p95 ms", "cpu %")
    for service, row in sorted(latest.items()):
        rate = f"{100 * row.get('error_rate', 0):.0f} %"
        table.add_row(
            service, f"{row['requests']:,}", rate, *(_number(row, name) for name in ("p50", "p95", "cpu"))
        )
    return table


def _flows(flows: Sequence[FlowProgress]) -> Table:
    table = _table("Flows on Spark", "flow", "rows", "rows/s", "behind", "batch")
    for flow in flows:
        behind = "-" if flow.lag is None else f"{flow.lag:,}"
        table.add_row(
            flow.name, f"{flow.rows:,}", f"{flow.processed_rate:,.0f}", behind, f"{flow.batch_seconds:.1f} s"
        )
    return table


def _number(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    return "-" if value is None else f"{value:.0f}"


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 or column == "what" else "right")
    return table
