"""Run blocking calls that release the GIL (fsync, disk reads) in threads and deliver their results on the event loop.

`ThreadPoolExecutor` costs more CPU per flush: a Future with its locks, and a wake-up of the loop per result. Here one
wake-up delivers all results that arrive while the loop is busy.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
Done = Callable[[OSError | None], None]


class _Call(Generic[T]):
    """Awaited call. Drops its outcome at the end, to avoid a reference cycle: an exception references the frames it was
    raised in, and those reference this object."""

    def __init__(self, work: Callable[[], T], future: asyncio.Future[T]) -> None:
        self._work: Callable[[], T] | None = work
        self._future: asyncio.Future[T] | None = future
        self._settle: Callable[[], None] | None = None

    def run(self) -> None:
        """Run in a thread, unless the future was cancelled."""
        work, future = self._work, self._future
        if work is None or future is None or future.cancelled():
            return
        try:
            self._settle = partial(future.set_result, work())
        except BaseException as error:
            self._settle = partial(future.set_exception, error)
        finally:
            del future, work

    def end(self, _: OSError | None = None) -> None:
        """Settle the future, on the loop. A call that was not started is cancelled."""
        future, settle = self._future, self._settle
        self._work = self._future = self._settle = None
        if future is not None and not future.done():
            (settle or future.cancel)()


class _Job(NamedTuple):
    work: Callable[[], None]
    done: Done
    drop: Done | None = None
    """Called instead of `work` and `done` if the job is dropped before it starts."""


class ThreadBackground:
    """Thread pool of an event loop; only the loop's thread may call it. Starts threads on demand."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int, name: str) -> None:
        self._loop = loop
        self._max_threads = threads
        self._name = name
        self._threads: list[threading.Thread] = []
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._unfinished = 0
        self._ended: deque[tuple[Done, OSError | None]] = deque()
        self._is_woken = False
        self._is_closed = False

    def run(self, work: Callable[[], None], done: Done) -> None:
        """Run `work` in a thread, then call `done` on the loop with its error or None."""
        self._begin(_Job(work, done))

    async def call(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread and return its result. Skipped if the caller is cancelled before it starts."""
        return await self._called(work)

    def _called(self, work: Callable[[], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        call = _Call(work, future)
        self._begin(_Job(call.run, call.end, call.end))
        return future

    def close(self, *, drop_waiting: bool = False) -> None:
        """Wait for all queued work. With `drop_waiting` wait only for started work; callers awaiting other work are
        cancelled."""
        self._is_closed = True
        with suppress(Empty):
            while drop_waiting:
                job = self._jobs.get_nowait()
                if job is not None and job.drop is not None:
                    job.drop(None)
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _begin(self, job: _Job) -> None:
        if self._is_closed:
            raise RuntimeError(f"the threads {self._name} have ended")
        self._unfinished += 1
        if len(self._threads) < min(self._unfinished, self._max_threads):
            name = f"{self._name}_{len(self._threads)}"
            thread = threading.Thread(target=self._serve, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._jobs.put(job)

    # -- in the threads -----------------------------------------------------------------------------

    def _serve(self) -> None:
        while self._has_done(self._jobs.get()):
            pass

    def _has_done(self, job: _Job | None) -> bool:
        """Run a job; False for the end marker."""
        if job is None:
            return False
        failure: OSError | None = None
        try:
            job.work()
        except OSError as error:
            failure = error
        except BaseException as error:  # passed to `done`, which would otherwise never be called
            failure = OSError(str(error))
        self._ended.append((job.done, failure))
        if not self._is_woken:
            self._is_woken = True
            with suppress(RuntimeError):  # the loop is closed: there are no more waiters
                self._loop.call_soon_threadsafe(self._deliver)
        return True

    # -- on the loop --------------------------------------------------------------------------------

    def _deliver(self) -> None:
        self._is_woken = False  # first, so that later results wake the loop again
        while self._ended:
            done, failure = self._ended.popleft()
            self._unfinished -= 1
            try:
                done(failure)
            except Exception as error:  # must not prevent the remaining callbacks
                self._loop.call_exception_handler({"message": f"{self._name}: {error}", "exception": error})
