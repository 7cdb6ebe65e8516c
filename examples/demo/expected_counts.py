"""Events written by the shop and its services, aggregated in plain Python the way the pipelines do."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from barnabas.pipelines.library.activity import generator as activity
from barnabas.pipelines.library.records import Generated

MINUTE = 60_000  # milliseconds
HOUR = 60 * MINUTE
FAILED = 500  # HTTP status of a server error, and above

Cell = tuple[int, str]
"""Start of a window in milliseconds, and the name that was counted."""


@dataclass(slots=True)
class ServiceMinute:
    """Reports of one service in one minute."""

    reports: int = 0
    durations: list[float] = field(default_factory=list)
    errors: int = 0
    cpu: list[float] = field(default_factory=list)


class ExpectedCounts:
    """Aggregates every record passed to the client; called from one thread."""

    def __init__(self) -> None:
        self.broken = 0
        """Values of the shop that are not valid events."""
        self.traffic: Counter[Cell] = Counter()
        self.views: Counter[Cell] = Counter()
        self.visitors: dict[Cell, set[str]] = defaultdict(set)
        self.searches: Counter[Cell] = Counter()
        self.services: dict[Cell, ServiceMinute] = defaultdict(ServiceMinute)
        self.newest_report = 0
        """Timestamp of the newest report, in milliseconds."""

    def take(self, record: Generated) -> None:
        if record.topic != activity.TOPIC:
            self._take_report(record.value or b"")
        elif record.value is None or record.value == activity.BAD_VALUE:
            self.broken += 1
        else:
            self._take_event(record.value)

    def _take_event(self, value: bytes) -> None:
        event = json.loads(value)
        time, kind = event["time"], event["kind"]
        self.traffic[_window(time, MINUTE), kind] += 1
        if kind == "view":
            cell = _window(time, MINUTE), event["page"]
            self.views[cell] += 1
            self.visitors[cell].add(event["visitor"])
        elif kind == "search":
            self.searches[_window(time, HOUR), event["query"].lower()] += 1

    def _take_report(self, value: bytes) -> None:
        report = json.loads(value)
        self.newest_report = max(self.newest_report, report["time"])
        minute = self.services[_window(report["time"], MINUTE), report["service"]]
        minute.reports += 1
        if report["kind"] == "request":
            minute.durations.append(report["duration_ms"])
            minute.errors += report["status"] >= FAILED
        elif report["kind"] == "host":
            minute.cpu.append(report["cpu"])


def _window(time: int, length: int) -> int:
    return time - time % length
