"""Limit on concurrent long-running responses, in total and per user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.services.console.errors import BusyError


class ConcurrencyLimit:
    """Limits open long-running responses in total and per user."""

    def __init__(self, limit: int, most_each: int, sentence: str) -> None:
        self._most, self._most_each, self._sentence = limit, most_each, sentence
        self._open = Counter[str]()

    @contextmanager
    def take(self, user: str) -> Iterator[None]:
        if self._open[user] >= self._most_each or self._open.total() >= self._most:
            raise BusyError(self._sentence)
        self._open[user] += 1
        try:
            yield
        finally:
            self._open[user] -= 1
            self._open += Counter[str]()  # drop users without open responses
