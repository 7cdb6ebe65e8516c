"""An event loop with virtual time: it never waits, it moves its clock to the next thing that is due."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any

START_MS = 1_700_000_000_000


class NothingLeftToDo(Exception):  # noqa: N818 - not an error of the program under test
    """Everybody waits for somebody: a deadlock."""


class _VirtualSelector(selectors.BaseSelector):
    """Instead of waiting for files, lets time pass."""

    def __init__(self) -> None:
        self.now = 0.0

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, 0, None)

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise NothingLeftToDo
        self.now += max(timeout, 0.0)
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return {}


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _VirtualSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


class VirtualClock:
    """The clock of every broker: that of the loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return START_MS + round(self._loop.time() * 1000)

    def monotonic(self) -> float:
        return self._loop.time()
