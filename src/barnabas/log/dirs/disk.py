"""State of the disk of one log dir, checked before each append: failed, full, or slow."""

from __future__ import annotations

import time
from collections.abc import Callable

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import FileSystem
from barnabas.common.safe_logging import safe_logger
from barnabas.log.dirs.slow_writes import BackgroundWriter, PendingWrites, TimedWrites
from barnabas.log.failures import LogDirError

logger = safe_logger(__name__)

CHECK_EVERY_MS = 1000
"""Interval of free space checks; the reserve must exceed what can be written in this time."""
AUTOMATIC_RESERVE = -1
MAX_AUTOMATIC_RESERVE = 128 << 20


class Disk:
    """Shared by all logs of a log dir. `error` is set permanently when the disk has failed."""

    __slots__ = (
        "_fs",
        "_monotonic",
        "_new_thread",
        "_next_check_ms",
        "_refusal",
        "_thread",
        "check_at_ms",
        "error",
        "folder",
        "reserve_bytes",
        "slow_seconds",
        "writes",
    )

    def __init__(self, fs: FileSystem, folder: str, reserve_bytes: int = 0) -> None:
        self._fs = fs
        self.folder = folder
        self.reserve_bytes = reserve_bytes
        self.error: KafkaError | None = None
        self.check_at_ms = 0
        """The append path calls `check` only from this time on. 0 if the disk has failed or is full: every append
        calls it."""
        self._next_check_ms = 0
        self._refusal: KafkaError | None = None
        self.writes: TimedWrites | PendingWrites | None = None
        """Timed or background writes; None: logs write directly."""
        self.slow_seconds = 0.0
        self._monotonic: Callable[[], float] = time.monotonic
        self._new_thread: Callable[[], BackgroundWriter] | None = None
        self._thread: BackgroundWriter | None = None

    def check(self, now_ms: int) -> None:
        """Raise if the disk has failed or is full; checks the free space at most once a second."""
        if self.error is not None:
            raise self.error.with_traceback(None)  # or it would keep the frames of every refused append
        if not 0 < self._next_check_ms - now_ms <= CHECK_EVERY_MS:
            self._check_free_space(now_ms)
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)

    def notice(self, now_ms: int) -> None:
        """Called about once a second: resume checks after the clock was set back, and end background writes."""
        if self.check_at_ms - now_ms > CHECK_EVERY_MS:
            self.check_at_ms = 0
        if self.writes is not None and self.writes.is_over:
            self._write_directly()

    # -- slow disks ---------------------------------------------------------------------------------

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
            self.writes = TimedWrites(self, self._monotonic)

    def write_in_thread(self) -> None:
        """Switch to background writes: the disk is slow."""
        if self._new_thread is None or isinstance(self.writes, PendingWrites):
            return
        thread = self.background()
        if thread is None:
            return
        self.writes = PendingWrites(self, self._monotonic, thread)
        logger.warning(
            "%s is slow: writes took longer than %d ms (barnabas.log.dir.slow.write.ms); a background thread writes "
            "to it now, and producers wait for that thread",
            self.folder,
            self.slow_seconds * 1000,
        )

    def background(self) -> BackgroundWriter | None:
        """Return the thread that writes to this disk; None if threads are not enabled or the disk has failed."""
        if self._thread is None and self._new_thread is not None and self.error is None:
            self._thread = self._new_thread()
        return self._thread

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

    # -- free space ---------------------------------------------------------------------------------

    def _check_free_space(self, now_ms: int) -> None:
        self.check_at_ms = self._next_check_ms = now_ms + CHECK_EVERY_MS
        before, self._refusal = self._refusal, None
        if not self.reserve_bytes:
            return
        try:
            free, reserve = self._space()
        except OSError as error:
            self.fail(LogDirError(self.folder, error))
            raise LogDirError(self.folder, error) from error
        if free < reserve:
            self.check_at_ms = 0  # every append checks until there is enough free space
            self._refusal = KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{self.folder} has {free} bytes left, less than barnabas.disk.reserve.bytes={reserve}: "
                "free some space or shorten the retention",
            )
        self._log_change(before)
        if self.error is not None:  # set by a thread meanwhile
            self.check_at_ms = 0

    def _space(self) -> tuple[int, int]:
        """Free bytes, and the bytes to keep free."""
        total, free = self._fs.capacity(self.folder)
        if self.reserve_bytes == AUTOMATIC_RESERVE:
            return free, min(MAX_AUTOMATIC_RESERVE, total // 20)
        return free, self.reserve_bytes

    def warn_if_nearly_full(self) -> None:
        """Log at start that appends are refused, or will be soon."""
        if not self.reserve_bytes:
            return
        free, reserve = self._space()
        if free < 2 * reserve:
            logger.warning(
                "%s has %d MiB left; below %d MiB (barnabas.disk.reserve.bytes) appends are refused: free some "
                "space or shorten the retention",
                self.folder,
                free >> 20,
                reserve >> 20,
            )

    def _log_change(self, before: KafkaError | None) -> None:
        """Log that the disk became full or has space again: producers retry without a message."""
        if self._refusal is not None and before is None:
            logger.error("appends are refused: %s", self._refusal.message)
        elif self._refusal is None and before is not None:
            logger.info("%s has enough free space again", self.folder)

    def fail(self, error: KafkaError) -> None:
        """Mark the disk as failed: all logs of the dir refuse appends with the first error."""
        if self.error is None:
            self.error = error
        self.check_at_ms = 0

    @property
    def closed(self) -> bool:
        return self.error is not None or self._refusal is not None
