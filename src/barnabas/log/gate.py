"""Whether the logs of one log dir may be written: the disk has not failed, and has room left."""

from __future__ import annotations

from barnabas.errors import ErrorCode, KafkaError
from barnabas.files import FileSystem
from barnabas.log.failures import LogDirError
from barnabas.log_lines import safe_logger

logger = safe_logger(__name__)

CHECK_EVERY_MS = 1000
"""A reserve must be larger than what can be written in this time."""


class Gate:
    """Shared by all logs of a log dir. `error` is set once and for all when the disk has failed."""

    __slots__ = ("_folder", "_fs", "_look_at_ms", "_refusal", "check_at_ms", "error", "reserve_bytes")

    def __init__(self, fs: FileSystem, folder: str, reserve_bytes: int = 0) -> None:
        self._fs = fs
        self._folder = folder
        self.reserve_bytes = reserve_bytes
        self.error: KafkaError | None = None
        self.check_at_ms = 0
        """Before this time nothing can have changed: the hot path compares it with its own now."""
        self._look_at_ms = 0
        self._refusal: KafkaError | None = None

    def check(self, now_ms: int) -> None:
        """Raises when nothing may be written; asks the disk at most once a second."""
        if self.error is not None:
            raise self.error
        if not 0 < self._look_at_ms - now_ms <= CHECK_EVERY_MS:
            self._look(now_ms)
        if self._refusal is not None:
            raise self._refusal

    def notice(self, now_ms: int) -> None:
        """Called about once a second: if somebody has set the clock back, the hot path must not wait until it has
        caught up."""
        if self.check_at_ms - now_ms > CHECK_EVERY_MS:
            self.check_at_ms = 0

    def _look(self, now_ms: int) -> None:
        self.check_at_ms = self._look_at_ms = now_ms + CHECK_EVERY_MS
        before, self._refusal = self._refusal, None
        if not self.reserve_bytes:
            return
        try:
            free = self._fs.free_bytes(self._folder)
        except OSError as error:
            self.fail(LogDirError(self._folder, error))
            raise LogDirError(self._folder, error) from error
        if free < self.reserve_bytes:
            self.check_at_ms = 0  # every append asks, until there is room again
            self._refusal = KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{self._folder} has {free} bytes left and barnabas.disk.reserve.bytes keeps "
                f"{self.reserve_bytes}: free some space or shorten the retention",
            )
        self._tell(before)

    def _tell(self, before: KafkaError | None) -> None:
        """Producers try again and again without a word; here is where somebody will look."""
        if self._refusal is not None and before is None:
            logger.error("nothing is written any more: %s", self._refusal.message)
        elif self._refusal is None and before is not None:
            logger.info("%s has room again", self._folder)

    def fail(self, error: KafkaError) -> None:
        """The disk has failed: the first error stays, and every log of the dir refuses from now on."""
        if self.error is None:
            self.error = error

    @property
    def closed(self) -> bool:
        return self.error is not None or self._refusal is not None
