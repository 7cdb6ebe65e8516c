"""Long work in steps: generators that yield now and then, so that they do not hold the loop up.

What lies between two yields takes a fraction of a millisecond: some hundred partitions, or as many members of a group.
What such a generator is given must not change before it is done.
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
"""Items that are looked at in one step."""

RUN = 4000
"""Items that are sorted in one step: a millisecond."""


def finish(steps: Steps[R]) -> R:
    """Take all steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result


def pieces(items: Iterable[T], size: int = PIECE) -> Iterator[Sequence[T]]:
    """Items by the hundred: a step for each, not for each item."""
    left = iter(items)
    while piece := list(islice(left, size)):
        yield piece


def sort(items: Iterable[Any]) -> Steps[list[Any]]:
    """`sorted`, of items that compare quickly."""
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
