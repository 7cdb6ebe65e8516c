"""State machine of an alarm, without Spark and without a clock: windows in, events out.

For each key of a rule:

    quiet   --bad window--------------------------> pending   since the window's start
    pending --bad window, `for` not reached-------> pending
    pending --bad window, `for` reached-----------> firing    event: fired
    pending --bad window after a gap--------------> pending   since that window's start
    pending --good window-------------------------> quiet
    firing  --bad window--------------------------> firing
    firing  --good window-------------------------> quiet     event: resolved

A bad window at least as long as `for` fires immediately. Time is event time: replaying the same windows yields the same
events with the same ids, so that a batch repeated after a crash changes nothing. A window that begins before the end of
the last one seen is stale and ignored. Periods without a value are neither good nor bad: they do not count towards
`for`, and a firing alarm stays firing until a good window.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

import msgspec

from barnabas.common.durations import seconds_of
from barnabas.pipelines.definitions.settings import AlarmRule

Phase = Literal["quiet", "pending", "firing"]


class WindowValue(NamedTuple):
    """Value of a key in one window; times are seconds since the epoch."""

    key: str
    start: float
    end: float
    value: float


class AlarmState(msgspec.Struct, frozen=True):
    phase: Phase = "quiet"
    since: float = 0.0
    seen: float = 0.0
    """End of the last window."""


class AlarmEvent(msgspec.Struct, frozen=True):
    """Event sent to the topic, the webhook and the log."""

    id: str
    alarm: str
    key: str
    status: Literal["fired", "resolved"]
    severity: str
    value: float
    threshold: str
    since: float
    at: float

    def sentence(self) -> str:
        of = f" of {self.key}" if self.key else ""
        return f"{self.alarm}{of} {self.status} ({self.severity}): {self.value:g}, threshold {self.threshold}"


class PipelineAlarm:
    """One rule and the state of each key."""

    def __init__(self, rule: AlarmRule, states: Mapping[str, AlarmState] | None = None) -> None:
        self.rule = rule
        self.states = dict(states or {})
        self._hold = seconds_of(rule.hold)

    def take(self, windows: Iterable[WindowValue]) -> list[AlarmEvent]:
        """Process the windows of a batch in time order and return the resulting events."""
        events = []
        for window in sorted(windows, key=lambda each: (each.end, each.key)):
            before = self.states.get(window.key, AlarmState())
            if window.start < before.seen:
                continue
            after = self._next(before, window)
            if (after.phase == "firing") != (before.phase == "firing"):
                events.append(self._event(before if before.phase == "firing" else after, after, window))
            self._keep(window.key, after)
        return events

    def firing(self) -> list[str]:
        return sorted(key for key, state in self.states.items() if state.phase == "firing")

    def _next(self, before: AlarmState, window: WindowValue) -> AlarmState:
        if not self.is_bad(window.value):
            return AlarmState("quiet", 0.0, window.end)
        if before.phase == "firing":
            return AlarmState("firing", before.since, window.end)
        goes_on = before.phase == "pending" and window.start <= before.seen
        since = before.since if goes_on else window.start
        return AlarmState("firing" if window.end - since >= self._hold else "pending", since, window.end)

    def is_bad(self, value: float) -> bool:
        if self.rule.above is not None:
            return value > self.rule.above
        return self.rule.below is not None and value < self.rule.below

    def _event(self, about: AlarmState, after: AlarmState, window: WindowValue) -> AlarmEvent:
        rule = self.rule
        return AlarmEvent(
            id=f"{rule.name}/{window.key}/{about.since:.3f}",
            alarm=rule.name,
            key=window.key,
            status="fired" if after.phase == "firing" else "resolved",
            severity=rule.severity,
            value=window.value,
            threshold=f"> {rule.above:g}" if rule.above is not None else f"< {rule.below:g}",
            since=about.since,
            at=window.end,
        )

    def _keep(self, key: str, state: AlarmState) -> None:
        """Store the state of a key. Quiet keys are dropped: there may be many, and windows arrive in time order."""
        if state.phase == "quiet":
            self.states.pop(key, None)
        else:
            self.states[key] = state
