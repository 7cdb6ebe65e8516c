"""Cooperative multitasking: long work as generators that yield regularly and so do not block the event loop.

A step takes a fraction of a millisecond: some hundred partitions or group members. The input of a generator must not
change until it is finished.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

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
