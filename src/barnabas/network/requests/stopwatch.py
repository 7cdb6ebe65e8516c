"""The time that one request takes of the loop: that of its handler, and of a coroutine only while it runs."""

from __future__ import annotations

import time
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Stopwatch:
    """Runs from `began` on until its time is added to `spent`."""

    __slots__ = ("began", "spent")

    def __init__(self) -> None:
        self.began = self.spent = 0.0

    @property
    def seconds(self) -> float:
        """Also while it runs for the first time."""
        return self.spent or time.monotonic() - self.began


@coroutine
def timed(inner: Coroutine[Any, Any, T], watch: Stopwatch) -> Generator[Any, Any, T]:
    """What a coroutine returns; the time that it runs is added to the watch, not that for which it waits."""
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
        except BaseException as raised:  # cancelled, or what it waited for failed
            error = raised
