"""Long work on the loop in time slices: in between, the loop serves others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator, Iterable
from functools import cache
from types import coroutine
from typing import TypeVar

from barnabas.common.clock import Turn, TurnLimit
from barnabas.common.cooperative import PIECE, Steps
from barnabas.protocol.schema import Struct, StructType

# A small request waits for one slice of each request that works in slices, and for other ready events.
LIMIT = TurnLimit(seconds=0.004)

# Time that a request in slices leaves to others, for each second that it works.
REST = 0.5

T = TypeVar("T")
R = TypeVar("R")


class RequestTurn(Turn):
    """Time that one request has occupied the loop without yielding."""

    __slots__ = ("_began", "_first")

    def __init__(self) -> None:
        super().__init__(LIMIT, time.monotonic)
        self._first = self._began

    @property
    def seconds(self) -> float:
        """Time since the first slice began."""
        return time.monotonic() - self._first

    def begin(self) -> None:
        super().begin()
        self._began = time.monotonic()

    async def rest(self) -> None:
        """Yield to the loop, longer after a longer slice."""
        await asyncio.sleep((time.monotonic() - self._began) * REST)
        self.begin()

    async def run(self, steps: Generator[None, None, R]) -> R:
        """Run a generator to its end and return its result."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: R = end.value
                return result
            if self.is_over():
                await self.rest()

    async def collect(self, items: Iterable[T], make: Callable[[T], R]) -> list[R]:
        """Apply `make` to each item."""
        made = []
        for item in items:
            made.append(make(item))
            if self.is_over():
                await self.rest()
        return made


# Shorter arrays are freed with the element that they are in.
FEW = 4


def freeing(held: list[object]) -> Steps[None]:
    """Free messages of many elements in steps. `held` has the last references to them, and is emptied.

    Nothing in the messages is changed, so that it does no harm if something else still refers to a part of them.
    """
    while held:
        piece = held[-PIECE:]
        del held[-PIECE:]
        for item in piece:
            if isinstance(item, Struct):
                for name in _containers(type(item)):
                    value = getattr(item, name)
                    if isinstance(value, Struct):
                        held.append(value)
                    elif type(value) in (list, tuple) and len(value) > FEW:
                        held += value
        item = value = None
        piece.clear()
        yield


@cache
def _containers(cls: type[Struct]) -> tuple[str, ...]:
    """Fields that may hold many elements."""
    return tuple(
        field.name
        for field in cls.FIELDS
        if field.wire == "array"
        or (
            field.wire == "structure" and isinstance(field.element, StructType) and _containers(field.element)
        )
    )


# -- Time that one request occupies the loop; a coroutine counts only while it runs ---------------------


class Stopwatch:
    """Runs from `began` until its time is added to `spent`."""

    __slots__ = ("began", "spent")

    def __init__(self) -> None:
        self.began = self.spent = 0.0

    @property
    def seconds(self) -> float:
        """The time spent, also while it runs for the first time."""
        return self.spent or time.monotonic() - self.began


@coroutine
def timed(inner: Coroutine[object, object, T], watch: Stopwatch) -> Generator[object, object, T]:
    """Run a coroutine; add the time that it runs, not the time that it waits, to the watch."""
    value: object = None
    error: BaseException | None = None
    while True:
        began = time.monotonic()
        try:
            waiting = inner.send(value) if error is None else inner.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            watch.spent += time.monotonic() - began
        value, error = None, None
        try:
            value = yield waiting
        except BaseException as raised:  # cancelled, or the awaited future failed
            error = raised
