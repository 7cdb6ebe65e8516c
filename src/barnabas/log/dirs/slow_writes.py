"""Writes to a slow log dir: timed first, then in background threads.

    direct --(loop was blocked)--> timed --(SLOW_WRITES slow ones in CALM_SECONDS)--> pending
       ^                             |                                                   |
       +-(CALM_SECONDS without one)--+-------------(and all appends are written)---------+

*Direct* is the normal case: `Disk.writes` is None, and nothing is measured. After the event loop was blocked, writes
are timed for a while, to find out whether this disk is the cause. In *pending*, threads of the dir write
(log/pending.py): one step of a log at a time, and different logs at the same time, because a slow write is mostly
waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from barnabas.common.safe_logging import safe_logger
from barnabas.log.dirs.disk_health import BackgroundWriter, DiskHealth
from barnabas.log.failures import DiskBusy
from barnabas.log.pending import PendingAppends, WriteStep

logger = safe_logger(__name__)

SLOW_WRITES = 3
"""Slow writes within CALM_SECONDS before the thread is used; a single one may be an outlier."""
CALM_SECONDS = 10.0
"""Longer than the five seconds between writebacks of the page cache, so that these cause no flapping."""
WRITERS = 8
"""Threads of a slow log dir, as many as Kafka's num.io.threads. They are started when they are needed."""
MAX_PENDING_BYTES = 64 << 20
"""Limit of pending bytes per log dir; appends beyond it fail with a retriable error."""


class WritableLog(Protocol):
    """A log, as far as batches are written to it."""

    def write(self, batch: memoryview, last_offset: int, max_timestamp: int, now_ms: int) -> None: ...
    def begin_pending(self, cancel: Callable[[PendingAppends], None]) -> PendingAppends: ...


class TimedWrites:
    """Direct writes, timed. `on_slow` is called when SLOW_WRITES of them were slow."""

    def __init__(
        self, slow_seconds: float, monotonic: Callable[[], float], on_slow: Callable[[], None]
    ) -> None:
        self._slow_seconds = slow_seconds
        self._monotonic = monotonic
        self._on_slow = on_slow
        self._slow: deque[float] = deque(maxlen=SLOW_WRITES)
        self.last_trouble = monotonic()

    def write(
        self,
        log: WritableLog,
        batch: memoryview,
        last_offset: int,
        max_timestamp: int,
        producer_id: int,
        now_ms: int,
    ) -> None:
        started = self._monotonic()
        log.write(batch, last_offset, max_timestamp, now_ms)
        now = self._monotonic()
        if now - started >= self._slow_seconds:
            self.last_trouble = now
            self._slow.append(now)
            if len(self._slow) == SLOW_WRITES and now - self._slow[0] < CALM_SECONDS:
                self._on_slow()

    @property
    def is_over(self) -> bool:
        return self._monotonic() - self.last_trouble >= CALM_SECONDS

    def close(self) -> None:
        """Nothing to close: direct writes have no thread."""


class PendingWrites:
    """Writes in threads, one step of a log at a time."""

    def __init__(
        self,
        disk: DiskHealth,
        slow_seconds: float,
        monotonic: Callable[[], float],
        threads: BackgroundWriter,
    ) -> None:
        self._disk = disk
        self._slow_seconds = slow_seconds
        self._monotonic = monotonic
        self._threads = threads
        self.steps = 0  # in progress
        self.last_trouble = monotonic()
        self.bytes = 0

    def write(
        self,
        log: WritableLog,
        batch: memoryview,
        last_offset: int,
        max_timestamp: int,
        producer_id: int,
        now_ms: int,
    ) -> None:
        size = len(batch)
        if self.bytes and self.bytes + size > MAX_PENDING_BYTES:
            raise DiskBusy(self._disk.folder, self.bytes)
        pending = log.begin_pending(self.drop)
        pending.add(batch, last_offset, max_timestamp, producer_id, now_ms)
        self.bytes += size
        self._begin(pending)

    def _begin(self, pending: PendingAppends) -> None:
        """Start the next step of a log, unless one is in progress."""
        if not pending.is_waiting:
            return
        if pending.log.is_abandoned or self._disk.error is not None:
            self._drop(pending)
            return
        step = pending.begin_step()
        self.steps += 1
        self._threads.run(lambda: self._run(step), lambda error: self._end(step))

    def _run(self, step: WriteStep) -> None:
        """Run a step, in a thread."""
        with step.running:
            if step.is_over:
                return
            started = self._monotonic()
            step.run()
            now = self._monotonic()
        if now - started >= self._slow_seconds:
            self.last_trouble = now

    def _end(self, step: WriteStep) -> None:
        """End a step and start the next one, on the event loop."""
        self.steps -= 1
        try:
            self._end_step(step)  # its callbacks may raise
        finally:
            self._begin(step.pending)

    def _end_step(self, step: WriteStep) -> None:
        if step.is_over:
            return
        step.is_over = True
        pending = step.pending
        is_void = step.error is not None or pending.log.is_abandoned
        self.bytes -= pending.bytes if is_void else step.size  # before callbacks, which may append
        if pending.log.is_abandoned:
            pending.undo()
        else:
            pending.end_step(step)

    def drop(self, pending: PendingAppends) -> None:
        """Wait for the current write of a log, and undo its other pending appends."""
        while (step := pending.step) is not None:
            with step.running:
                step.is_over = not step.is_run
            if step.is_over:
                break
            self._end_step(step)  # its callbacks may append, which starts another step
        self._drop(pending)

    def _drop(self, pending: PendingAppends) -> None:
        if not pending.is_over:
            self.bytes -= pending.bytes
            pending.undo()

    @property
    def is_over(self) -> bool:
        """True if the disk was fast for CALM_SECONDS and nothing is pending."""
        calm = self._monotonic() - self.last_trouble >= CALM_SECONDS
        return calm and not self.steps

    def close(self) -> None:
        self._threads.close()
