"""Which alarms there must be: those that the written reports give, and those of the incidents that were planned.

The first is exact: plain Python computes the rules' values, and the state machine of alarms goes over the minutes that
are closed. The second does not look at the reports, so it would notice if they told of no incident.
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

LATENESS = MINUTE  # the watermark of `reports` in the template `operations`
HIGH_PERCENTILE = 0.95

Value = Callable[[ServiceMinute], float | None]


def _slowness(minute: ServiceMinute) -> float | None:
    """As Spark's sketch has it while it is exact: the smallest value with that share at or below it."""
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
"""The expressions of the template's rules, by the names of these."""


def closed_until(newest: int) -> int:
    """Windows that end at this moment or before it are closed when the report of `newest` is the last; milliseconds."""
    return newest - LATENESS


def expected_events(
    rules: Iterable[AlarmRule], minutes: Mapping[Cell, ServiceMinute], until: int
) -> list[AlarmEvent]:
    """What the rules say about the minutes that end at `until` or before it."""
    closed = {cell: minute for cell, minute in minutes.items() if cell[0] + MINUTE <= until}
    return [event for rule in rules for event in PipelineAlarm(rule).take(_values(rule, closed))]


def _values(rule: AlarmRule, minutes: Mapping[Cell, ServiceMinute]) -> Iterator[WindowValue]:
    for (start, service), minute in minutes.items():
        value = VALUES[rule.name](minute)
        if value is not None:
            yield WindowValue(service, start / 1000, (start + MINUTE) / 1000, value)


class Planned(NamedTuple):
    """An incident (times are milliseconds since 1970) must have this said by a rule."""

    rule: str
    incident: Incident
    status: str


def planned(rules: Sequence[AlarmRule], incidents: Iterable[Incident], until: int) -> list[Planned]:
    """Of incidents with enough whole minutes, closed by `until`, to fire; and with one after their end, to resolve."""
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
    """Whether an alarm tells of that incident: its first bad minute may have begun before the incident did."""
    begin, end = plan.incident.begin - MINUTE, plan.incident.end
    return any(
        (event.alarm, event.key, event.status) == (plan.rule, plan.incident.service, plan.status)
        and begin <= event.since * 1000 < end
        for event in events
    )
