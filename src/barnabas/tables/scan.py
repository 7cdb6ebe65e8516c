"""Read in a thread with a separate event loop, for any caller: a script, a notebook with a loop, DuckDB's threads.

Every thread is joined: when its last item was taken, when the reader is closed, at the latest when the process exits.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import queue
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing
from typing import Any, Generic, Self, TypeVar

T = TypeVar("T")

AHEAD = 4
FULL_SECONDS = 0.002


class _End:
    """Marks the end of the items."""


_END = _End()
_running: weakref.WeakSet[TableScan[Any]] = weakref.WeakSet()


class TableScan(Iterator[T], Generic[T]):
    """Iterate over an asynchronous generator that runs in a thread, a few items ahead."""

    def __init__(self, produce: Callable[[], AsyncGenerator[T, None]]) -> None:
        self._produce = produce
        self._items: queue.Queue[Any] = queue.Queue(AHEAD)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="reads a table", daemon=True)
        _running.add(self)
        self._thread.start()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        if self._stopped:
            raise StopIteration
        item = self._items.get()
        if item is _END:
            self.close()
            raise StopIteration
        if isinstance(item, BaseException):
            self.close()
            raise item
        found: T = item
        return found

    def close(self) -> None:
        """Stop the thread in any state."""
        self._stopped = True
        loop, task = self._loop, self._task
        if loop is not None and task is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the thread is already ending
                loop.call_soon_threadsafe(task.cancel)
        while self._thread.is_alive():
            self._drain()
            self._thread.join(0.05)
        with contextlib.suppress(queue.Full):
            self._items.put_nowait(_END)  # wakes a consumer that waits in another thread

    def _drain(self) -> None:
        try:
            while True:
                self._items.get_nowait()
        except queue.Empty:
            return

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except asyncio.CancelledError:
            return

    async def _work(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        try:
            async with aclosing(self._produce()) as items:
                async for item in items:
                    await self._put(item)
            await self._put(_END)
        except Exception as error:
            await self._put(error)

    async def _put(self, item: Any) -> None:
        while not self._stopped:
            try:
                self._items.put_nowait(item)
                return
            except queue.Full:
                await asyncio.sleep(FULL_SECONDS)  # the loop keeps running, so that no request times out
        raise asyncio.CancelledError


def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in a thread with a separate event loop and return its result."""

    async def produce() -> AsyncGenerator[T, None]:
        yield await work()

    scan: TableScan[T] = TableScan(produce)
    try:
        return next(scan)
    finally:
        scan.close()


@atexit.register
def _close_all() -> None:
    for scan in list(_running):
        scan.close()
