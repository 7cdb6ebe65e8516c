"""Time that one request occupies the loop: that of its handler, and of a coroutine only while it runs."""

from __future__ import annotations

import time
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


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
def timed(inner: Coroutine[Any, Any, T], watch: Stopwatch) -> Generator[Any, Any, T]:
    """Run a coroutine; add the time that it runs, not the time that it waits, to the watch."""
    value: Any = None
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
