"""Expected alarms: those implied by the written reports, and those of the planned incidents.

The first set is exact: plain Python computes the values of the rules and runs the alarm state machine over the closed
minutes. The second does not use the reports, so it detects reports that omit an incident.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from barnabas.common.durations import seconds_of
from barnabas.pipelines.alarms.state import AlarmEvent, PipelineAlarm, WindowValue
from barnabas.pipelines.definitions.settings import AlarmRule
from barnabas.pipelines.library.operations.generator import Incident
from examples.demo.expected_counts import MINUTE, Cell, ServiceMinute

LATENESS = MINUTE  # watermark delay of `reports` in the template `operations`
HIGH_PERCENTILE = 0.95

Value = Callable[[ServiceMinute], float | None]


def _slowness(minute: ServiceMinute) -> float | None:
    """Percentile as computed by Spark's sketch while exact: the smallest value with that share at or below it."""
    rank = math.ceil(HIGH_PERCENTILE * len(minute.durations))
    return sorted(minute.durations)[rank - 1] if rank else None


def _failures(minute: ServiceMinute) -> float | None:
    return minute.errors / len(minute.durations) if minute.durations else None


def _load(minute: ServiceMinute) -> float | None:
    return math.fsum(minute.cpu) / len(minute.cpu) if minute.cpu else None


VALUES: dict[str, Value] = {
    "slow requests": _slowness,
    "failing requests": _failures,
    "busy hosts": _load,
}
"""Expressions of the template's rules, by rule name."""


def closed_until(newest: int) -> int:
    """End, in milliseconds, up to which windows are closed if the last report is of `newest`."""
    return newest - LATENESS


def expected_events(
    rules: Iterable[AlarmRule], minutes: Mapping[Cell, ServiceMinute], until: int
) -> list[AlarmEvent]:
    """Alarm events that the rules give for minutes ending at or before `until`."""
    closed = {cell: minute for cell, minute in minutes.items() if cell[0] + MINUTE <= until}
    return [event for rule in rules for event in PipelineAlarm(rule).take(_values(rule, closed))]


def _values(rule: AlarmRule, minutes: Mapping[Cell, ServiceMinute]) -> Iterator[WindowValue]:
    for (start, service), minute in minutes.items():
        value = VALUES[rule.name](minute)
        if value is not None:
            yield WindowValue(service, start / 1000, (start + MINUTE) / 1000, value)


class Planned(NamedTuple):
    """Alarm event that a rule must raise for an incident (times in milliseconds since 1970)."""

    rule: str
    incident: Incident
    status: str


def planned(rules: Sequence[AlarmRule], incidents: Iterable[Incident], until: int) -> list[Planned]:
    """Alarms of incidents with enough closed minutes to fire, and with a closed minute after their end to resolve."""
    found = []
    for incident in incidents:
        first, end = -(-incident.begin // MINUTE) * MINUTE, incident.end // MINUTE * MINUTE
        good_minute = -(-incident.end // MINUTE) * MINUTE + MINUTE
        for rule in rules:
            if first + seconds_of(rule.hold) * 1000 <= min(end, until):
                found.append(Planned(rule.name, incident, "fired"))
                if good_minute <= until:
                    found.append(Planned(rule.name, incident, "resolved"))
    return found


def has_come(plan: Planned, events: Iterable[AlarmEvent]) -> bool:
    """True if an alarm matches the incident; its first bad minute may begin before the incident."""
    begin, end = plan.incident.begin - MINUTE, plan.incident.end
    return any(
        (event.alarm, event.key, event.status) == (plan.rule, plan.incident.service, plan.status)
        and begin <= event.since * 1000 < end
        for event in events
    )
