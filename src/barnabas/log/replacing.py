"""Replacement of a log's files: all segments go, and it continues, empty, at another offset.

In memory that happens at once. The disk follows in steps, some of which are fsyncs, by a thread of the log dir if the
caller says so, otherwise here and now. A crash between two steps leaves a log that opens: each caller says how.

Until the last step (`is_settled`) the log is empty, and what was, or will be, in its folder is the thread's business:

| what comes                          | is                                                                        |
|-------------------------------------|---------------------------------------------------------------------------|
| an append                           | refused (`LogUnsettled`): `UnsettledSegment` has no file                   |
| a fetch from the leader             | put off (`has_pending`): the leader must not count what may be undone      |
| a flush                             | empty: the recovery point stays where the steps have lowered it            |
| a checkpoint                        | notes `noted_from`, below what the old and the new files hold              |
| retention, compaction, copies       | find nothing; retention begins steps anew that a full disk has interrupted |
| another cut, a move, a clean stop   | carries out the steps that are left, and waits for the one that is running |
| a deletion, a failed disk           | cancels them, and waits for the one that is running                        |
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
    """The files of the log are being replaced; it is as it was before, and a later append will succeed."""

    def __init__(self, folder: str) -> None:
        KafkaError.__init__(
            self, ErrorCode.KAFKA_STORAGE_ERROR, f"the files in {folder} are being replaced: try again"
        )
        self.folder = folder


class UnsettledSegment(Segment):
    """The only segment of a log that is not settled."""

    __slots__ = ()

    @property
    def file(self) -> File:
        raise LogUnsettled(self.folder)


class Replacement:
    """Steps on the disk, each of which may be repeated; then `complete` on the loop."""

    def __init__(self, steps: list[Step], noted_from: int, complete: Callable[[], None]) -> None:
        self._steps = steps
        self._running = threading.Lock()  # held while a step is taken
        self.noted_from = noted_from
        self.complete = complete
        self.error: OSError | KafkaError | None = None

    def run(self) -> None:
        """In any thread, until a step fails. What two threads run at once is run once."""
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
    """A log with at most one replacement of its files."""

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
        """What checkpoints note as log start and high watermark as long as it is not settled."""
        return None if self._replacement is None else self._replacement.noted_from

    def when_settled(self, callback: Callable[[], None]) -> None:
        """Call it on the loop when the files are replaced, or will not be."""
        self._waiting_for_files.append(callback)

    def settle(self) -> None:
        """Carry out, here and now, what is left of a replacement."""
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
        """Try again if a full disk has interrupted it; no segment is removed meanwhile."""
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
        """On the loop. A log that has been abandoned, or was settled meanwhile, has another one, or none."""
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
        """The files are not ours any more."""
        replacement, self._replacement = self._replacement, None
        if replacement is not None:
            replacement.cancel()
            self._files_are_settled()

    def _files_are_settled(self) -> None:
        waiting, self._waiting_for_files = self._waiting_for_files, []
        for callback in waiting:
            callback()
