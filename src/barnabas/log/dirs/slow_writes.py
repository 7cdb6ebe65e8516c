"""Writes to a slow log dir: timed first, then in a background thread.

    direct --(loop was blocked)--> timed --(SLOW_WRITES slow ones in CALM_SECONDS)--> pending
       ^                             |                                                   |
       +-(CALM_SECONDS without one)--+-------------(and all appends are written)---------+

*Direct* is the normal case: `Disk.writes` is None, and nothing is measured. After the event loop was blocked, writes
are timed for a while, to find out whether this disk is the cause. In *pending*, a thread of the dir writes
(log/pending.py), in rounds: one step of each log with pending appends.
"""

from __future__ import annotations

import threading
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
    """Writes in a thread, in rounds of one step per log."""

    def __init__(
        self,
        disk: DiskHealth,
        slow_seconds: float,
        monotonic: Callable[[], float],
        thread: BackgroundWriter,
    ) -> None:
        self._disk = disk
        self._slow_seconds = slow_seconds
        self._monotonic = monotonic
        self._thread = thread
        self._waiting: dict[PendingAppends, None] = {}
        self._in_progress: list[WriteStep] = []
        self._running = threading.Lock()  # held by the thread during a step
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
        self._waiting[pending] = None
        self.bytes += size
        self._begin()

    def _begin(self) -> None:
        """Start a round: one step of each log with pending appends."""
        if self._in_progress or not self._waiting:
            return
        waiting, self._waiting = self._waiting, {}
        for pending in waiting:
            if pending.log.is_abandoned:
                self._drop(pending)
        steps = self._in_progress = [pending.begin_step() for pending in waiting if pending.is_waiting]
        if steps:
            self._thread.run(lambda: self._run(steps), lambda error: self._end(steps))

    def _run(self, steps: list[WriteStep]) -> None:
        """Run a round, in the thread."""
        for step in steps:
            with self._running:
                if step.is_over:
                    continue
                started = self._monotonic()
                step.run()
                now = self._monotonic()
            if now - started >= self._slow_seconds:
                self.last_trouble = now

    def _end(self, steps: list[WriteStep]) -> None:
        """End a round, on the event loop. Appends of callbacks wait for the next round."""
        failures = []
        for step in steps:
            try:
                self._end_step(step)
            except Exception as failure:  # raised by a callback; the steps of other logs must still end
                failures.append(failure)
        self._in_progress = []
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
        """Wait for the current write of a log, and undo its other pending appends."""
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
        """True if the disk was fast for CALM_SECONDS and nothing is pending."""
        calm = self._monotonic() - self.last_trouble >= CALM_SECONDS
        return calm and not self._in_progress and not self._waiting

    def close(self) -> None:
        self._thread.close()
