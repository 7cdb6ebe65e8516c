"""One writer at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Turns:
    """Runs steps one after the other, in the order they were asked for.

    A step that has begun runs to its end even if whoever asked for it is cancelled (a client that went
    away): an entry that is in the log must also reach the image.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def run(self, step: Callable[[], Coroutine[Any, Any, T]]) -> T:
        turn = asyncio.ensure_future(self._in_turn(step))
        turn.add_done_callback(_seen)
        return await asyncio.shield(turn)

    async def _in_turn(self, step: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async with self._lock:
            return await step()


def _seen(turn: asyncio.Future[Any]) -> None:
    """An error is told to whoever asked; when nobody is left to be told, it is not worth a complaint."""
    if not turn.cancelled():
        turn.exception()
