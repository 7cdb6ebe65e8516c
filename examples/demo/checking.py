"""Checks that every event was counted exactly once: results compared with expected counts. Parquet is the only I/O."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.pipelines.alarms.state import AlarmEvent
from barnabas.pipelines.definitions.settings import AlarmRule
from barnabas.pipelines.library.operations.generator import Incident
from examples.demo.alarm_plan import closed_until, expected_events, has_come, planned
from examples.demo.expected_counts import Cell, ExpectedCounts

if TYPE_CHECKING:
    import pyarrow as pa

Row = Mapping[str, Any]
Figures = Mapping[str, int]
"""Counts by display name, such as `view at 2026-11-16 10:03`."""


class Check(NamedTuple):
    what: str
    expected: Figures
    found: Figures

    @property
    def differences(self) -> list[str]:
        """Names whose expected and actual counts differ; a missing count is 0."""
        names = sorted({*self.expected, *self.found})
        return [name for name in names if self.expected.get(name, 0) != self.found.get(name, 0)]

    @property
    def good(self) -> bool:
        return not self.differences

    def sentence(self) -> str:
        """First difference, and the number of further ones."""
        name, *others = self.differences
        numbers = f"{self.expected.get(name, 0):,} expected, {self.found.get(name, 0):,} found"
        more = f"; {len(others):,} more differ" if others else ""
        return f"{self.what}: {name}: {numbers}{more}."


def activity_checks(
    written: ExpectedCounts, results: Mapping[str, Mapping[str, Row]], letters: int
) -> list[Check]:
    """`results` are the latest rows by topic and key, `letters` is the number of records in the dead-letter topic."""
    pages, traffic = results["activity.pages"].values(), results["activity.traffic"].values()
    searches = results["activity.searches"].values()
    return [
        Check("activity: events by kind and minute", _of(written.traffic), _rows(traffic, "kind", "count")),
        Check("activity: views by page and minute", _of(written.views), _rows(pages, "page", "views")),
        Check(
            "activity: visitors by page and minute",
            _of({cell: len(visitors) for cell, visitors in written.visitors.items()}),
            _rows(pages, "page", "visitors"),
        ),
        Check(
            "activity: searches by term and hour",
            _of(written.searches),
            _rows(searches, "term", "count", "hour"),
        ),
        Check("activity: broken records set aside", {"all": written.broken}, {"all": letters}),
    ]


def operations_checks(written: ExpectedCounts, results: Mapping[str, Mapping[str, Row]]) -> list[Check]:
    rows = results["operations.services"].values()
    return [
        Check(
            "operations: reports by service and minute",
            _of({cell: minute.reports for cell, minute in written.services.items()}),
            _rows(rows, "service", "reports"),
        ),
        Check(
            "operations: failed requests by service and minute",
            _of({cell: minute.errors for cell, minute in written.services.items()}),
            _rows(rows, "service", "errors"),
        ),
    ]


def alarm_checks(
    written: ExpectedCounts,
    rules: Sequence[AlarmRule],
    incidents: Iterable[Incident],
    heard: Iterable[AlarmEvent],
    topic: Iterable[Row],
) -> list[Check]:
    """`heard` are the events as reported live, possibly repeated; `topic` is the latest record of each alarm."""
    until = closed_until(written.newest_report)
    expected = expected_events(rules, written.services, until)
    events = list({(event.id, event.status): event for event in heard}.values())
    last_words = {event.id: event for event in sorted(expected, key=lambda event: event.at)}.values()
    plan = planned(rules, incidents, until)
    names = [f"{each.rule} of {each.incident.service} {each.status}" for each in plan]
    arrived = [name for name, each in zip(names, plan, strict=True) if has_come(each, events)]
    return [
        Check("operations: alarms of the planned incidents", Counter(names), Counter(arrived)),
        Check(
            "operations: alarms that the reports give",
            Counter(map(_alarm, expected)),
            Counter(map(_alarm, events)),
        ),
        Check(
            "operations: the last word on each alarm in its topic",
            Counter(map(_alarm, last_words)),
            Counter(
                f"{row['alarm']} of {row['key']} {row['status']} at {_clock(row['at'])}" for row in topic
            ),
        ),
    ]


def warehouse_checks(delivered: Figures, folder: Path) -> list[Check]:
    rows, offsets = _parquet(folder)
    return [
        Check("warehouse: rows in Parquet files by topic", delivered, rows),
        Check("warehouse: different offsets among them", delivered, offsets),
    ]


def _of(cells: Mapping[Cell, int]) -> dict[str, int]:
    return {f"{name} at {_clock(start / 1000)}": number for (start, name), number in cells.items()}


def _rows(rows: Iterable[Row], name: str, number: str, window: str = "minute") -> dict[str, int]:
    """Counts of a result by name and window."""
    starts = ((row, datetime.fromisoformat(row[window]).timestamp()) for row in rows)
    return {f"{row[name]} at {_clock(start)}": row[number] for row, start in starts}


def _alarm(event: AlarmEvent) -> str:
    return f"{event.alarm} of {event.key} {event.status} at {_clock(event.at)}"


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds))


def _parquet(folder: Path) -> tuple[Figures, Figures]:
    """Rows and distinct offsets by topic, counted without Spark by another Parquet reader."""
    import pyarrow.dataset

    table = pyarrow.dataset.dataset(folder, format="parquet", partitioning="hive").to_table(
        columns=["topic", "partition", "offset"]
    )
    offsets = table.group_by(["topic", "partition", "offset"]).aggregate([])
    return _by_topic(table), _by_topic(offsets)


def _by_topic(table: pa.Table) -> Figures:
    counted = table.group_by("topic").aggregate([([], "count_all")])
    return dict(zip(counted["topic"].to_pylist(), counted["count_all"].to_pylist(), strict=True))
