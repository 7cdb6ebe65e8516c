"""Traps that kill or suspend a broker at a named step of copying or expiring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from barnabas.tiering.writing.pacing import Step


class Trap(NamedTuple):
    step: Step
    visits: int  # springs at this visit of the step, counted over all brokers
    spring: Callable[[int], None]  # called with the broker id before the step ends


class Traps:
    def __init__(self) -> None:
        self.passed: Counter[Step] = Counter()
        """Visits of each step by any broker."""
        self.sprung: Counter[Step] = Counter()
        self.are_armed = False
        self._set: list[Trap] = []

    def set(self, trap: Trap) -> None:
        self._set.append(trap)

    def clear(self) -> None:
        self._set.clear()

    def at(self, number: int, step: Step) -> None:
        self.passed[step] += 1
        if not self.are_armed:
            return
        for index, trap in enumerate(self._set):
            if trap.step is step:
                self._set[index] = trap = trap._replace(visits=trap.visits - 1)
                if not trap.visits:
                    del self._set[index]
                    self.sprung[step] += 1
                    trap.spring(number)
                    return
