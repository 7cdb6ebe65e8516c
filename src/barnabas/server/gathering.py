"""One answer out of several that come in one by one, now or later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Gathering(Generic[T]):
    """Calls `finish` with all parts, in order, when the last one is there; at once when none is expected."""

    def __init__(self, count: int, finish: Callable[[list[T]], None]) -> None:
        self._parts: dict[int, T] = {}
        self._count = count
        self._finish = finish
        if not count:
            finish([])

    def part(self, number: int) -> Callable[[T], None]:
        """The place for one part, to be called once."""

        def arrived(value: T) -> None:
            self._parts[number] = value
            if len(self._parts) == self._count:
                self._finish([self._parts[index] for index in range(self._count)])

        return arrived
