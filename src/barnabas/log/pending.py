"""Pending appends of one log on a slow disk (decision 0022).

Theory of operation. The logs of a slow log dir do not write on the event loop. An append assigns offsets, checks and
records the producer, and adds a copy of the batch to a queue: *log end* moves, *written* does not. Threads of the
log dir run one step per log at a time (log/dirs/slow_writes.py):

    queue:   append append append | roll append append | roll append ...
    step:    one write of all appends up to the next roll; a roll is always the first action of a step

After a step, the event loop updates size, index and tail of the segment, and moves *written*. So readers only see
written batches. A failed step leaves none of its bytes in the file, and all pending appends are undone, newest first:
log end returns to *written*, the producers to their state before the first of the batches, and the next append gets
the same offsets again. No client has seen these offsets: responses, reads and the high watermark stop at *written*.

A roll is planned when the append that needs it arrives, with the producer snapshot of that time. It is executed when
everything below it is written.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.common.files import File
from barnabas.log import names
from barnabas.log.recovery.snapshots import encode_snapshot
from barnabas.log.segments.segment import Segment

if TYPE_CHECKING:
    from barnabas.log.producer import SavedProducer
    from barnabas.log.rolling_log import RollingLog
    from barnabas.log.segments.aborted_index import AbortedTransaction

STEP_BYTES = 4 << 20
"""Size limit of one write, which also limits how long `DurableLog.drop_pending` waits."""


class PendingAppend:
    """A batch with assigned offsets that is not written yet."""

    __slots__ = ("_aborted", "data", "last_offset", "max_timestamp", "saved")

    def __init__(
        self, data: bytes, last_offset: int, max_timestamp: int, saved: SavedProducer | None
    ) -> None:
        self.data = data
        self.last_offset = last_offset
        self.max_timestamp = max_timestamp
        self.saved = saved
        self._aborted: AbortedTransaction | None = None

    def note_aborted(self, transaction: AbortedTransaction) -> None:
        """Record the transaction; `Segment.note_aborted` is called when the marker is written."""
        self._aborted = transaction

    def apply(self, log: RollingLog) -> None:
        """Update the segment after the batch was written."""
        log.segments.note_append(
            len(self.data), self.last_offset, self.max_timestamp, log.config.index_interval_bytes
        )
        if self._aborted is not None:
            log.segments.active.note_aborted(self._aborted)


class PendingRoll:
    """A new segment, and the files to write before it."""

    def __init__(self, log: RollingLog, now_ms: int) -> None:
        offset = log.offsets.end
        self._fs = log.fs
        self._snapshot = log.snapshots.path(offset), encode_snapshot(log.producers)
        self._indexes: list[tuple[str, bytes]] = []
        self._file: File | None = None
        self.offset = offset
        self.fresh = Segment.planned(log.fs, log.folder, offset, log.open_segments, now_ms)

    def prepare(self, sealed: Segment) -> None:
        """Collect the index files, on the event loop, when everything below is written."""
        self._indexes = sealed.sealed_files()

    def run(self) -> File:
        """Write the files, in the thread. Idempotent."""
        for path, data in (self._snapshot, *self._indexes):
            self._fs.write_atomic(path, data, sync=False)
        file = self._fs.open(self.fresh.path(names.LOG), create=True)
        if file.size:
            file.truncate(0)
        self._file = file
        return file

    def apply(self, log: RollingLog) -> None:
        """Make the new segment active, on the event loop, if its file was created."""
        if self._file is None:
            return
        sealed = log.segments.active
        sealed.files_were_saved()
        self.fresh.use_file(self._file)
        log.segments.roll(self.fresh)
        log.snapshots.note(self.offset)
        log.unsynced.add(log.folder, sealed.existing_paths()[1:])
        log.want_flush()


class WriteStep:
    """The next write of one log in the thread."""

    __slots__ = ("appends", "error", "file", "is_over", "is_run", "pending", "roll", "running", "size")

    def __init__(
        self, pending: PendingAppends, roll: PendingRoll | None, appends: list[PendingAppend]
    ) -> None:
        self.pending = pending
        self.roll = roll
        self.file: File | None = None
        self.appends = appends
        self.size = sum(len(append.data) for append in appends)
        self.running = threading.Lock()  # held by the thread while it runs the step
        self.is_run = False
        self.is_over = False
        """The event loop has processed the result, or cancelled the step."""
        self.error: OSError | None = None

    def run(self) -> None:
        self.is_run = True
        if self.error is not None:
            return
        try:
            file = self.roll.run() if self.roll is not None else self.file
            assert file is not None
            file.append(b"".join([append.data for append in self.appends]))
        except OSError as error:
            self.error = error


class PendingAppends:
    """The queue of one log; it exists only while appends are pending."""

    def __init__(self, log: RollingLog, cancel: Callable[[PendingAppends], None]) -> None:
        self.log = log
        self._cancel = cancel
        self._queue: deque[PendingAppend | PendingRoll] = deque()
        self._step: WriteStep | None = None
        self._segment = log.segments.active  # target of the next append
        self._size = self._segment.size
        self.bytes = 0
        self.newest: PendingAppend | None = None

    def add(
        self, batch: memoryview, last_offset: int, max_timestamp: int, producer_id: int, now_ms: int
    ) -> None:
        log, size = self.log, len(batch)
        if log.must_roll(self._segment, self._size, size, last_offset, max_timestamp, now_ms):
            self._plan_roll(now_ms)
        if not self._size:
            self._segment.first_timestamp = max_timestamp
        saved = log.producers.save(producer_id) if producer_id >= 0 else None
        self.newest = PendingAppend(bytes(batch), last_offset, max_timestamp, saved)
        self._queue.append(self.newest)
        self._size += size
        self.bytes += size
        log.offsets.reserve(last_offset + 1)

    def _plan_roll(self, now_ms: int) -> None:
        roll = PendingRoll(self.log, now_ms)
        self._queue.append(roll)
        self._segment, self._size = roll.fresh, 0

    # -- steps --------------------------------------------------------------------------------------

    def begin_step(self) -> WriteStep:
        """Start a step with the appends up to the next roll; it ends after STEP_BYTES."""
        queue, segment = self._queue, self.log.segments.active
        roll = queue[0] if isinstance(queue[0], PendingRoll) else None
        if roll is not None:
            queue.popleft()
            roll.prepare(segment)
        appends: list[PendingAppend] = []
        size = 0
        while queue and size < STEP_BYTES and isinstance(first := queue[0], PendingAppend):
            appends.append(first)
            size += len(first.data)
            queue.popleft()
        step = self._step = WriteStep(self, roll, appends)
        if roll is None:
            try:
                step.file = segment.file_to_append()
            except OSError as error:
                step.error = error
        return step

    def end_step(self, step: WriteStep) -> None:
        """Process the result of a step, on the event loop."""
        log = self.log
        if step.roll is not None:
            step.roll.apply(log)
        if step.error is not None:
            log.failed(step.error)
            self.undo()
            return
        self._step = None
        for append in step.appends:
            append.apply(log)
        self.bytes -= step.size
        if not self._queue:
            log.end_pending()
        # Last, as callbacks may append, start the next step, or truncate the log.
        log.note_written(step.appends[-1].last_offset + 1, step.size)

    def cancel(self) -> None:
        """Wait for the current write, and undo all other appends."""
        self._cancel(self)

    def undo(self) -> None:
        """Undo all appends that are not written: those of the current step and of the queue."""
        log = self.log
        unwritten = self._step.appends if self._step is not None else []
        unwritten += [each for each in self._queue if isinstance(each, PendingAppend)]
        self._queue.clear()
        self._step = None
        self.bytes = 0
        log.end_pending()
        log.undo_appends(unwritten)

    @property
    def step(self) -> WriteStep | None:
        return self._step

    @property
    def is_over(self) -> bool:
        """True if everything is written or undone. Later appends use a new queue."""
        return self._step is None and not self._queue

    @property
    def is_waiting(self) -> bool:
        """True if the queue has appends and no step is in progress."""
        return bool(self._queue) and self._step is None
