"""Replacement of a log's files: all segments are removed, and the log restarts, empty, at another offset.

In memory that happens immediately. On disk it takes several steps, some of them fsyncs, in a thread of the log dir or
synchronously, as the caller requests. After a crash between two steps the log can be opened; each caller says how.

Until the last step (`is_settled`) the log is empty, and only the thread uses its folder:

| operation                              | behaviour                                                               |
|----------------------------------------|-------------------------------------------------------------------------|
| append                                 | refused (`LogUnsettled`): `UnsettledSegment` has no file                |
| fetch from the leader                  | delayed (`has_pending`): the new log end may still be undone            |
| flush                                  | no effect: the recovery point stays as the steps have lowered it        |
| checkpoint                             | has `noted_from`, at or below the offsets of the old and the new files  |
| retention, compaction, copying         | find nothing; retention retries steps that a full disk interrupted      |
| another truncation, a move, a shutdown | run the remaining steps, and wait for the current one                   |
| deletion, failed disk                  | cancel the remaining steps, and wait for the current one                |
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import File
from barnabas.log.failures import DISK_FULL, DiskFull
from barnabas.log.local_log import LocalLog
from barnabas.log.segments.segment import Segment

Step = Callable[[], None]


class LogUnsettled(DiskFull):
    """The files of the log are being replaced; it is unchanged, and a later append will succeed."""

    def __init__(self, folder: str) -> None:
        KafkaError.__init__(
            self, ErrorCode.KAFKA_STORAGE_ERROR, f"the files in {folder} are being replaced: retry"
        )
        self.folder = folder


class UnsettledSegment(Segment):
    """The only segment of a log during a replacement."""

    __slots__ = ()

    @property
    def file(self) -> File:
        raise LogUnsettled(self.folder)


class Replacement:
    """Idempotent steps on disk, then `complete` on the event loop."""

    def __init__(self, steps: list[Step], noted_from: int, complete: Callable[[], None]) -> None:
        self._steps = steps
        self._running = threading.Lock()  # held during a step
        self.noted_from = noted_from
        self.complete = complete
        self.error: OSError | KafkaError | None = None

    def run(self) -> None:
        """Run the remaining steps, in any thread, until one fails. Two threads do not run a step twice."""
        self.error = None
        while self.error is None and self._take_step():
            pass

    def _take_step(self) -> bool:
        with self._running:
            if not self._steps:
                return False
            try:
                self._steps[0]()
            except (OSError, KafkaError) as error:
                self.error = error
            else:
                del self._steps[0]
            return True

    def cancel(self) -> None:
        with self._running:
            self._steps.clear()


class ReplaceableLog(LocalLog):
    """A log with at most one replacement of its files in progress."""

    __slots__ = ("_replacement", "_waiting_for_files")

    _replacement: Replacement | None
    _waiting_for_files: list[Callable[[], None]]

    @property
    def is_settled(self) -> bool:
        return self._replacement is None

    def check_settled(self) -> None:
        if self._replacement is not None:
            raise LogUnsettled(self.folder)

    @property
    def noted_from(self) -> int | None:
        """Log start and high watermark for checkpoints during a replacement; None if there is none."""
        return None if self._replacement is None else self._replacement.noted_from

    def when_settled(self, callback: Callable[[], None]) -> None:
        """Call `callback` on the event loop when the replacement is complete or cancelled."""
        self._waiting_for_files.append(callback)

    def settle(self) -> None:
        """Run the remaining steps of a replacement synchronously."""
        replacement = self._replacement
        if replacement is None:
            return
        replacement.run()
        self._end_replacement(replacement)
        if replacement.error is not None:
            raise self._replacement_error(replacement.error)

    def replace(self, replacement: Replacement, *, in_background: bool) -> None:
        self._replacement = replacement
        if not in_background or not self._run_in_background(replacement):
            self.settle()

    def resume_replacement(self) -> list[Segment]:
        """Retry a replacement that a full disk interrupted. Returns no removed segments."""
        replacement = self._replacement
        if replacement is not None and replacement.error is not None:
            self._run_in_background(replacement)
        return []

    def _run_in_background(self, replacement: Replacement) -> bool:
        thread = self.disk.background()
        if thread is None:
            return False
        replacement.error = None
        thread.run(replacement.run, lambda _: self._end_replacement(replacement))
        return True

    def _end_replacement(self, replacement: Replacement) -> None:
        """Complete a replacement, on the event loop, unless it was completed or cancelled meanwhile."""
        if self._replacement is not replacement:
            return
        if replacement.error is None:
            self._replacement = None
            replacement.complete()
            self._files_are_settled()
        elif isinstance(replacement.error, OSError) and replacement.error.errno not in DISK_FULL:
            self.failed(replacement.error, ())
            self.cancel_replacement()

    def _replacement_error(self, error: OSError | KafkaError) -> KafkaError:
        return self.failed(error) if isinstance(error, OSError) else error

    def cancel_replacement(self) -> None:
        """Cancel the replacement: the log must not use its files any more."""
        replacement, self._replacement = self._replacement, None
        if replacement is not None:
            replacement.cancel()
            self._files_are_settled()

    def _files_are_settled(self) -> None:
        waiting, self._waiting_for_files = self._waiting_for_files, []
        for callback in waiting:
            callback()
