"""The disk of one log dir, and how logs write to it: directly, timed or in a thread (log/dirs/slow_writes.py)."""

from __future__ import annotations

import time
from collections.abc import Callable

from barnabas.common.files import FileSystem
from barnabas.common.safe_logging import safe_logger
from barnabas.log.dirs.disk_health import CHECK_EVERY_MS, BackgroundWriter, DiskHealth
from barnabas.log.dirs.slow_writes import PendingWrites, TimedWrites

logger = safe_logger(__name__)


class Disk(DiskHealth):
    """`writes` are timed or in the background; None: logs write directly."""

    __slots__ = ("_monotonic", "slow_seconds", "writes")

    def __init__(self, fs: FileSystem, folder: str, reserve_bytes: int = 0) -> None:
        super().__init__(fs, folder, reserve_bytes)
        self.writes: TimedWrites | PendingWrites | None = None
        self.slow_seconds = 0.0
        self._monotonic: Callable[[], float] = time.monotonic

    def notice(self, now_ms: int) -> None:
        """Called about once a second: resume checks after the clock was set back, and end background writes."""
        if self.check_at_ms - now_ms > CHECK_EVERY_MS:
            self.check_at_ms = 0
        if self.writes is not None and self.writes.is_over:
            self._write_directly()

    def use_thread_when_slow(
        self, slow_ms: int, new_thread: Callable[[], BackgroundWriter], monotonic: Callable[[], float]
    ) -> None:
        """Enable background writes; writes longer than `slow_ms` count as slow, 0 disables it."""
        self.slow_seconds = slow_ms / 1000
        self._new_thread = new_thread
        self._monotonic = monotonic

    def loop_was_late(self, seconds: float) -> None:
        """Start timing writes: the event loop was blocked, possibly by a write to this disk."""
        if self._new_thread is None or not self.slow_seconds or self.error is not None:
            return
        if self.writes is None and seconds >= self.slow_seconds / 2:
            self.writes = TimedWrites(self.slow_seconds, self._monotonic, self.write_in_thread)

    def write_in_thread(self) -> None:
        """Switch to background writes: the disk is slow."""
        if self._new_thread is None or isinstance(self.writes, PendingWrites):
            return
        thread = self.background()
        if thread is None:
            return
        self.writes = PendingWrites(self, self.slow_seconds, self._monotonic, thread)
        logger.warning(
            "%s is slow: writes took longer than %d ms (barnabas.log.dir.slow.write.ms); background threads write "
            "to it now, and producers wait for them",
            self.folder,
            self.slow_seconds * 1000,
        )

    def _write_directly(self) -> None:
        if isinstance(self.writes, PendingWrites):
            logger.info("%s is fast again", self.folder)
        self.writes = None

    def close(self) -> None:
        """End background writes and their thread."""
        self.writes = None
        if self._thread is not None:
            self._thread.close()
            self._thread = None
