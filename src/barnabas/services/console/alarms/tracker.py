"""Current alarms with their start times. An alarm fires once its condition has held for the rule's duration."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from barnabas.services.console.alarms.catalogue import ALARMS
from barnabas.services.console.alarms.conditions import Alarm, AlarmFinding
from barnabas.services.console.exporter.watch import ClusterFigures

MAX_FINDINGS = 1000
"""Per alarm: a failed broker of a large cluster affects thousands of partitions."""


class Raised(NamedTuple):
    alarm: Alarm
    finding: AlarmFinding
    since_ms: int

    def is_firing(self, now_ms: int) -> bool:
        return now_ms - self.since_ms >= self.alarm.seconds * 1000


class AlarmTracker:
    """`update` evaluates the conditions once per tick. State is not persisted: `since` never precedes the start."""

    def __init__(self, alarms: Iterable[Alarm] = ALARMS) -> None:
        self._alarms = [alarm for alarm in alarms if alarm.find is not None]
        self._raised: dict[str, dict[str, Raised]] = {}
        self._more: dict[str, int] = {}
        self._now_ms = 0

    def update(self, known: ClusterFigures, now_ms: int) -> None:
        for alarm in self._due(known, now_ms):
            self._look(alarm, known, now_ms)

    def _due(self, known: ClusterFigures, now_ms: int) -> Iterator[Alarm]:
        """While the cluster does not answer, only that alarm is evaluated; earlier findings stay."""
        self._now_ms = now_ms
        return (alarm for alarm in self._alarms if alarm.name == "FiguresAreOld" or not known.is_stale)

    async def follow(self, known: ClusterFigures) -> None:
        """Follower of a watch. Yields to the loop between alarms, as a large cluster takes a while."""
        now_ms = time.time_ns() // 1_000_000
        for alarm in self._due(known, now_ms):
            self._look(alarm, known, now_ms)
            await asyncio.sleep(0)

    @property
    def firing(self) -> list[Raised]:
        """By severity, then oldest first."""
        found = [
            raised
            for each in self._raised.values()
            for raised in each.values()
            if raised.is_firing(self._now_ms)
        ]
        return sorted(found, key=lambda raised: (raised.alarm.severity.rank, raised.since_ms))

    @property
    def pending(self) -> list[Raised]:
        """Alarms that have not held long enough."""
        every = (raised for each in self._raised.values() for raised in each.values())
        return sorted((one for one in every if not one.is_firing(self._now_ms)), key=lambda one: one.since_ms)

    def more(self, alarm: str) -> int:
        """Number of findings of an alarm beyond the limit."""
        return self._more.get(alarm, 0)

    def _look(self, alarm: Alarm, known: ClusterFigures, now_ms: int) -> None:
        assert alarm.find is not None
        before = self._raised.get(alarm.name, {})
        now: dict[str, Raised] = {}
        left_out = 0
        for finding in alarm.find(known):
            if len(now) >= MAX_FINDINGS and finding.name not in now:
                left_out += 1
                continue
            since_ms = before[finding.name].since_ms if finding.name in before else now_ms
            now[finding.name] = Raised(alarm, finding, since_ms)
        self._raised[alarm.name], self._more[alarm.name] = now, left_out
