"""Health of the disk of one log dir, checked before each append: it has failed, or it is full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import FileSystem
from barnabas.common.safe_logging import safe_logger
from barnabas.log.failures import LogDirError

logger = safe_logger(__name__)

CHECK_EVERY_MS = 1000
"""Interval of free space checks; the reserve must exceed what can be written in this time."""
AUTOMATIC_RESERVE = -1
MAX_AUTOMATIC_RESERVE = 128 << 20


class BackgroundWriter(Protocol):
    """Runs a blocking call, which releases the GIL, in a thread, then `done(error)` on the event loop."""

    def run(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None: ...
    def close(self) -> None: ...


def reserved_bytes(setting: int, total: int) -> int:
    """Bytes to keep free on a disk of `total` bytes, from `barnabas.disk.reserve.bytes`."""
    return min(MAX_AUTOMATIC_RESERVE, total // 20) if setting == AUTOMATIC_RESERVE else setting


class DiskHealth:
    """Shared by all logs of a log dir. `error` is set permanently when the disk has failed."""

    __slots__ = (
        "_fs",
        "_new_thread",
        "_next_check_ms",
        "_refusal",
        "_thread",
        "check_at_ms",
        "error",
        "folder",
        "reserve_bytes",
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

    def background(self) -> BackgroundWriter | None:
        """Return the thread that writes to this disk; None if threads are not enabled or the disk has failed."""
        if self._thread is None and self._new_thread is not None and self.error is None:
            self._thread = self._new_thread()
        return self._thread

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
        return free, reserved_bytes(self.reserve_bytes, total)

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
