"""The life of an alarm, without Spark and without a clock: windows in, events out.

For each key of a rule:

    quiet   --bad window--------------------------> pending   since the window's start
    pending --bad window, `for` not reached-------> pending
    pending --bad window, `for` reached-----------> firing    event: fired
    pending --bad window after a gap--------------> pending   since that window's start
    pending --good window-------------------------> quiet
    firing  --bad window--------------------------> firing
    firing  --good window-------------------------> quiet     event: resolved

A window that is bad for as long as `for` asks fires at once. Time is event time: replaying the same windows gives the
same events with the same ids, so that a batch that is run again after a crash changes nothing. A window that begins
before the end of the last one seen is old news and says nothing. Time without a value is neither good nor bad: it does
not count for `for`, and what fires goes on firing until a good window says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

import msgspec

from barnabas.common.durations import seconds_of
from barnabas.pipelines.definitions.settings import AlarmRule

Phase = Literal["quiet", "pending", "firing"]


class WindowValue(NamedTuple):
    """What Spark found for a key in a window; times are seconds since 1970."""

    key: str
    start: float
    end: float
    value: float


class AlarmState(msgspec.Struct, frozen=True):
    phase: Phase = "quiet"
    since: float = 0.0
    seen: float = 0.0
    """The end of the last window."""


class AlarmEvent(msgspec.Struct, frozen=True):
    """What goes to the topic, the webhook and the log."""

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
    """One rule, and how it stands with every key."""

    def __init__(self, rule: AlarmRule, states: Mapping[str, AlarmState] | None = None) -> None:
        self.rule = rule
        self.states = dict(states or {})
        self._hold = seconds_of(rule.hold)

    def take(self, windows: Iterable[WindowValue]) -> list[AlarmEvent]:
        """Go through the windows of a batch in the order of time and return what has happened."""
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
        """Quiet keys are forgotten: there may be many, and closed windows come in the order of time anyway."""
        if state.phase == "quiet":
            self.states.pop(key, None)
        else:
            self.states[key] = state
