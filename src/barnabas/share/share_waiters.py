"""Fetches that found nothing in a share partition, in the order in which they came.

A record goes to one member, so one of them is asked at a time, and the next only while there is something left to
take: a hundred idle workers cost no more than one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Waiter(Protocol):
    def share_changed(self) -> None:
        """Try again, at once. A fetch that still finds nothing goes to the end of the queue."""
        ...


class Waiters:
    def __init__(
        self, has_news: Callable[[], bool], call_soon: Callable[[Callable[[], None]], object]
    ) -> None:
        self._has_news = has_news
        self._call_soon = call_soon
        self._waiting: dict[Waiter, None] = {}
        self._scheduled = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiter: Waiter) -> None:
        self._waiting[waiter] = None

    def remove(self, waiter: Waiter) -> None:
        self._waiting.pop(waiter, None)

    def wake(self) -> None:
        """There may be records. Fetches try a moment later: other partitions may have some, too."""
        if self._waiting and not self._scheduled and self._has_news():
            self._scheduled = True
            self._call_soon(self._ask_each)

    def _ask_each(self) -> None:
        self._scheduled = False
        for _ in range(len(self._waiting)):
            first = next(iter(self._waiting), None)
            if first is None or not self._has_news():
                return
            del self._waiting[first]
            first.share_changed()
