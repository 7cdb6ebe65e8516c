"""How a log dir that is slow is written to: timed first, then by a thread.

    direct --(the loop was late)--> timed --(SLOW_WRITES of them in CALM_SECONDS)--> pending
       ^                              |                                                 |
       +---(CALM_SECONDS without)-----+---------(and nothing is left to be written)-----+

*Direct* is the normal case: `Disk.writes` is None, and nothing is measured. When the loop was late, something has held
it up; for a while each write is timed, which shows whether it was this disk. In *pending*, a thread of the dir writes
(log/pending.py), in rounds: a step of each log that has something to write.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from barnabas.common.safe_logging import safe_logger
from barnabas.log.failures import DiskBusy
from barnabas.log.pending import PendingAppends, WriteStep

if TYPE_CHECKING:
    from barnabas.log.dirs.disk import Disk
    from barnabas.log.log import Log

logger = safe_logger(__name__)

SLOW_WRITES = 3
"""Once may be chance."""
CALM_SECONDS = 10.0
"""Page caches are written back every five seconds: a dir that is slow only then must not change with it."""
MAX_PENDING_BYTES = 64 << 20
"""What a slow dir may hold in memory. A client that cannot be served is told so and tries again."""


class Background(Protocol):
    """Runs a blocking call that releases the GIL elsewhere, then `done(error)` on the event loop."""

    def run(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None: ...
    def close(self) -> None: ...


class TimedWrites:
    """Direct writes with a stopwatch."""

    def __init__(self, disk: Disk, monotonic: Callable[[], float]) -> None:
        self._disk = disk
        self._monotonic = monotonic
        self._slow: deque[float] = deque(maxlen=SLOW_WRITES)
        self.last_trouble = monotonic()

    def write(
        self,
        log: Log,
        batch: memoryview,
        last_offset: int,
        max_timestamp: int,
        producer_id: int,
        now_ms: int,
    ) -> None:
        began = self._monotonic()
        log.write(batch, last_offset, max_timestamp, now_ms)
        now = self._monotonic()
        if now - began >= self._disk.slow_seconds:
            self.last_trouble = now
            self._slow.append(now)
            if len(self._slow) == SLOW_WRITES and now - self._slow[0] < CALM_SECONDS:
                self._disk.write_in_thread()

    @property
    def is_over(self) -> bool:
        return self._monotonic() - self.last_trouble >= CALM_SECONDS

    def close(self) -> None:
        """There is nothing to end."""


class PendingWrites:
    """A thread writes, one step of each log after the other."""

    def __init__(self, disk: Disk, monotonic: Callable[[], float], thread: Background) -> None:
        self._disk = disk
        self._monotonic = monotonic
        self._thread = thread
        self._waiting: dict[PendingAppends, None] = {}
        self._under_way: list[WriteStep] = []
        self._running = threading.Lock()  # held by the thread while it takes a step
        self.last_trouble = monotonic()
        self.bytes = 0

    def write(
        self,
        log: Log,
        batch: memoryview,
        last_offset: int,
        max_timestamp: int,
        producer_id: int,
        now_ms: int,
    ) -> None:
        size = len(batch)
        if self.bytes and self.bytes + size > MAX_PENDING_BYTES:
            raise DiskBusy(self._disk.folder, self.bytes)
        pending = log.begin_pending(self)
        pending.add(batch, last_offset, max_timestamp, producer_id, now_ms)
        self._waiting[pending] = None
        self.bytes += size
        self._begin()

    def _begin(self) -> None:
        """One round: a step of each log that waits."""
        if self._under_way or not self._waiting:
            return
        waiting, self._waiting = self._waiting, {}
        for pending in waiting:
            if pending.log.is_abandoned:
                self._drop(pending)
        steps = self._under_way = [pending.begin_step() for pending in waiting if pending.is_waiting]
        if steps:
            self._thread.run(lambda: self._run(steps), lambda error: self._end(steps))

    def _run(self, steps: list[WriteStep]) -> None:
        """In the thread."""
        for step in steps:
            with self._running:
                if step.is_over:
                    continue
                began = self._monotonic()
                step.run()
                now = self._monotonic()
            if now - began >= self._disk.slow_seconds:
                self.last_trouble = now

    def _end(self, steps: list[WriteStep]) -> None:
        """The round stays under way until all its steps have ended: what callbacks append waits for the next one."""
        failures = []
        for step in steps:
            try:
                self._end_step(step)
            except (
                Exception
            ) as failure:  # of a callback; the other logs must hear of their steps all the same
                failures.append(failure)
        self._under_way = []
        if self._disk.error is not None:
            for pending in list(self._waiting):
                self._drop(pending)
        self._begin()
        if failures:
            raise failures[0]

    def _end_step(self, step: WriteStep) -> None:
        if step.is_over:
            return
        step.is_over = True
        pending = step.pending
        is_void = step.error is not None or pending.log.is_abandoned
        self.bytes -= pending.bytes if is_void else step.size  # before callbacks, which may append
        try:
            if pending.log.is_abandoned:
                pending.undo()
            else:
                pending.end_step(step)
        finally:
            if pending.is_waiting:
                self._waiting[pending] = None

    def drop(self, pending: PendingAppends) -> None:
        """Wait for what is being written of a log, and undo the rest."""
        step = pending.step
        if step is not None:
            with self._running:
                is_run, step.is_over = step.is_run, not step.is_run
            if is_run:
                self._end_step(step)
        self._drop(pending)

    def _drop(self, pending: PendingAppends) -> None:
        self._waiting.pop(pending, None)
        if not pending.is_over:
            self.bytes -= pending.bytes
            pending.undo()

    @property
    def is_over(self) -> bool:
        """Has the disk been fast for long, and is everything written?"""
        calm = self._monotonic() - self.last_trouble >= CALM_SECONDS
        return calm and not self._under_way and not self._waiting

    def close(self) -> None:
        self._thread.close()
