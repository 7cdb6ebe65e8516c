"""Blocking calls that release the GIL (fsync, reads from the disk) run in threads, their ends on the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class ThreadBackground:
    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int, name: str) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    def run(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        def finished(future: Future[None]) -> None:
            error = future.exception()
            failure = error if isinstance(error, OSError) or error is None else OSError(str(error))
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(done, failure)

        self._pool.submit(work).add_done_callback(finished)

    async def call(self, work: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._pool, work)

    def close(self, *, drop_waiting: bool = False) -> None:
        self._pool.shutdown(wait=True, cancel_futures=drop_waiting)
