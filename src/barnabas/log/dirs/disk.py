"""The disk under one log dir: has it failed, has it room left, is it slow? Asked before each append."""

from __future__ import annotations

import time
from collections.abc import Callable

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import FileSystem
from barnabas.common.safe_logging import safe_logger
from barnabas.log.dirs.slow_writes import Background, PendingWrites, TimedWrites
from barnabas.log.failures import LogDirError

logger = safe_logger(__name__)

CHECK_EVERY_MS = 1000
"""A reserve must be larger than what can be written in this time."""


class Disk:
    """Shared by all logs of a log dir. `error` is set once and for all when the disk has failed."""

    __slots__ = (
        "_fs",
        "_look_at_ms",
        "_monotonic",
        "_new_thread",
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
        """Before this time nothing can have changed: the hot path compares it with its own now. 0 when the disk has
        failed or is full: then every append asks."""
        self._look_at_ms = 0
        self._refusal: KafkaError | None = None
        self.writes: TimedWrites | PendingWrites | None = None
        """How its logs are written; None: by themselves."""
        self.slow_seconds = 0.0
        self._monotonic: Callable[[], float] = time.monotonic
        self._new_thread: Callable[[], Background] | None = None
        self._thread: Background | None = None

    def check(self, now_ms: int) -> None:
        """Raises when nothing may be written; asks the disk at most once a second."""
        if self.error is not None:
            raise self.error.with_traceback(None)  # or it would keep the frames of every refused append
        if not 0 < self._look_at_ms - now_ms <= CHECK_EVERY_MS:
            self._look(now_ms)
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)

    def notice(self, now_ms: int) -> None:
        """Called about once a second: if the clock was set back, the hot path must not wait until it has caught up."""
        if self.check_at_ms - now_ms > CHECK_EVERY_MS:
            self.check_at_ms = 0
        if self.writes is not None and self.writes.is_over:
            self._write_directly()

    # -- slow disks ---------------------------------------------------------------------------------

    def use_thread_when_slow(
        self, slow_ms: int, new_thread: Callable[[], Background], monotonic: Callable[[], float]
    ) -> None:
        """Writes that take longer than `slow_ms` are slow; 0: the dir is never written to by a thread."""
        self.slow_seconds = slow_ms / 1000
        self._new_thread = new_thread
        self._monotonic = monotonic

    def loop_was_late(self, seconds: float) -> None:
        """Something has held the loop up. If it was a write to this disk, there will be more of them: time them."""
        if self._new_thread is None or not self.slow_seconds or self.error is not None:
            return
        if self.writes is None and seconds >= self.slow_seconds / 2:
            self.writes = TimedWrites(self, self._monotonic)

    def write_in_thread(self) -> None:
        """It has shown itself slow."""
        if self._new_thread is None or isinstance(self.writes, PendingWrites):
            return
        thread = self.background()
        if thread is None:
            return
        self.writes = PendingWrites(self, self._monotonic, thread)
        logger.warning(
            "%s is slow: writes took longer than %d ms (barnabas.log.dir.slow.write.ms); a thread writes to it from "
            "now on, and its producers wait for that",
            self.folder,
            self.slow_seconds * 1000,
        )

    def background(self) -> Background | None:
        """The thread that writes to this disk; None where there is none, and after a failure."""
        if self._thread is None and self._new_thread is not None and self.error is None:
            self._thread = self._new_thread()
        return self._thread

    def _write_directly(self) -> None:
        if isinstance(self.writes, PendingWrites):
            logger.info("%s is fast again", self.folder)
        self.writes = None

    def close(self) -> None:
        """Nothing is written any more."""
        self.writes = None
        if self._thread is not None:
            self._thread.close()
            self._thread = None

    # -- room ---------------------------------------------------------------------------------------

    def _look(self, now_ms: int) -> None:
        self.check_at_ms = self._look_at_ms = now_ms + CHECK_EVERY_MS
        before, self._refusal = self._refusal, None
        if not self.reserve_bytes:
            return
        try:
            free = self._fs.free_bytes(self.folder)
        except OSError as error:
            self.fail(LogDirError(self.folder, error))
            raise LogDirError(self.folder, error) from error
        if free < self.reserve_bytes:
            self.check_at_ms = 0  # every append asks, until there is room again
            self._refusal = KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{self.folder} has {free} bytes left and barnabas.disk.reserve.bytes keeps "
                f"{self.reserve_bytes}: free some space or shorten the retention",
            )
        self._tell(before)
        if self.error is not None:  # set by a thread meanwhile
            self.check_at_ms = 0

    def _tell(self, before: KafkaError | None) -> None:
        """Producers retry silently; the broker's log is where an operator looks."""
        if self._refusal is not None and before is None:
            logger.error("nothing is written any more: %s", self._refusal.message)
        elif self._refusal is None and before is not None:
            logger.info("%s has room again", self.folder)

    def fail(self, error: KafkaError) -> None:
        """The disk has failed: the first error stays, and every log of the dir refuses from now on."""
        if self.error is None:
            self.error = error
        self.check_at_ms = 0

    @property
    def closed(self) -> bool:
        return self.error is not None or self._refusal is not None
