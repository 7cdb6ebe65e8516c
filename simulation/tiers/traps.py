"""Brokers that die, or stop for a while, at a named step of copying or expiring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from barnabas.tiering.writing.pacing import Step


class Trap(NamedTuple):
    step: Step
    visits: int  # it springs when any broker is there for this time
    spring: Callable[[int], None]  # told which broker it is; it happens before the step is left


class Traps:
    def __init__(self) -> None:
        self.passed: Counter[Step] = Counter()
        """How often any broker was at each step."""
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
