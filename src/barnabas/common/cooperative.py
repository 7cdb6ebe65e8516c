"""Cooperative multitasking: long work as generators that yield regularly and so do not block the event loop.

A step takes a fraction of a millisecond: some hundred partitions or group members. The input of a generator must not
change until it is finished.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from barnabas.common.clock import Turn, TurnLimit

T = TypeVar("T")
R = TypeVar("R")

Steps = Generator[None, None, R]

PIECE = 500
"""Items processed per step."""

RUN = 4000
"""Items sorted per step: about a millisecond."""


def finish(steps: Steps[R]) -> R:
    """Run all steps without interruption and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result


def pieces(items: Iterable[T], size: int = PIECE) -> Iterator[Sequence[T]]:
    """Split items into lists of `size`, one per step."""
    left = iter(items)
    while piece := list(islice(left, size)):
        yield piece


def sort(items: Iterable[Any]) -> Steps[list[Any]]:
    """Sort in steps, for items with fast comparison."""
    runs = []
    for run in pieces(items, RUN):
        runs.append(sorted(run))
        yield
    if len(runs) == 1:
        return runs[0]
    ordered: list[Any] = []
    for piece in pieces(heapq.merge(*runs)):
        ordered += piece
        yield
    return ordered


class PeriodicTask:
    """Runs rounds of steps on the event loop, in slices of a few milliseconds; each round starts `interval` seconds
    after the end of the previous one."""

    def __init__(
        self,
        interval: float,
        monotonic: Callable[[], float],
        limit: TurnLimit,
    ) -> None:
        self._steps: Callable[[], Iterator[None]] = lambda: iter(())
        self._interval = interval
        self._current = Turn(limit, monotonic)
        self._round: Iterator[None] = iter(())
        self._next: asyncio.Handle | None = None

    def start(self, steps: Callable[[], Iterator[None]]) -> None:
        """`steps` begins a round."""
        self._steps = steps
        self._begin()

    def _begin(self) -> None:
        self._round = self._steps()
        self._turn()

    def stop(self) -> None:
        """Stop immediately, without finishing the current round."""
        self._round = iter(())
        if self._next is not None:
            self._next.cancel()

    def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        self._next = loop.call_later(self._interval, self._begin)  # also when a step fails
        if not self._is_over():
            self._next.cancel()
            self._next = loop.call_soon(self._turn)

    def _is_over(self) -> bool:
        """Run steps for one slice; True if the round is finished."""
        turn = self._current
        turn.begin()
        while next(self._round, self) is not self:
            if turn.is_over():
                return False
        return True
