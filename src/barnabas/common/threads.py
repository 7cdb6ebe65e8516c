"""Blocking calls that release the GIL (fsync, reads from the disk) run in threads, their ends on the loop.

`ThreadPoolExecutor` would do, but costs a flush more CPU: a Future with its locks, and a wake-up of the loop for each
end. Here ends that come while the loop is busy are delivered by one wake-up.
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
    """Work whose end is awaited. It forgets its outcome in the end: an exception refers to the frames that it was
    raised in, and those to this object, which would be a cycle."""

    def __init__(self, work: Callable[[], T], future: asyncio.Future[T]) -> None:
        self._work: Callable[[], T] | None = work
        self._future: asyncio.Future[T] | None = future
        self._settle: Callable[[], None] | None = None

    def run(self) -> None:
        """In a thread; not if nobody awaits it any more."""
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
        """On the loop. What was not begun is cancelled."""
        future, settle = self._future, self._settle
        self._work = self._future = self._settle = None
        if future is not None and not future.done():
            (settle or future.cancel)()


class _Job(NamedTuple):
    work: Callable[[], None]
    done: Done
    drop: Done | None = None
    """Called instead of both if it is never begun."""


class ThreadBackground:
    """Only the loop's own thread calls it. Threads are started when there is work for them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int, name: str) -> None:
        self._loop = loop
        self._most_threads = threads
        self._name = name
        self._threads: list[threading.Thread] = []
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._unfinished = 0
        self._ended: deque[tuple[Done, OSError | None]] = deque()
        self._is_woken = False
        self._is_closed = False

    def run(self, work: Callable[[], None], done: Done) -> None:
        """`done` gets the error of `work`, or None."""
        self._begin(_Job(work, done))

    async def call(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises. One that is no longer awaited is not begun."""
        return await self._called(work)

    def _called(self, work: Callable[[], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        call = _Call(work, future)
        self._begin(_Job(call.run, call.end, call.end))
        return future

    def close(self, *, drop_waiting: bool = False) -> None:
        """Wait for the work that was given; with `drop_waiting` only for what has begun, and who awaits other work is
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
        if len(self._threads) < min(self._unfinished, self._most_threads):
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
        """False for the sign that there will be no more."""
        if job is None:
            return False
        failure: OSError | None = None
        try:
            job.work()
        except OSError as error:
            failure = error
        except BaseException as error:  # nobody but the one who waits for the end could tell of it
            failure = OSError(str(error))
        self._ended.append((job.done, failure))
        if not self._is_woken:
            self._is_woken = True
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._deliver)
        return True

    # -- on the loop --------------------------------------------------------------------------------

    def _deliver(self) -> None:
        self._is_woken = False  # first: what ends from now on wakes the loop again
        while self._ended:
            done, failure = self._ended.popleft()
            self._unfinished -= 1
            try:
                done(failure)
            except Exception as error:  # of one who waited; the others are told all the same
                self._loop.call_exception_handler({"message": f"{self._name}: {error}", "exception": error})
