"""Batches as a leader sent them, checked one by one and written together.

A run is what follows each other in what was sent, and will in the active segment: one write. It ends before a batch
that may need a new segment, whose producer snapshot must know all that lies below. Whatever fails, the log has the
batches before it, whole, and knows their epochs and producers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.log.checks import check_follows
from barnabas.log.recovery.replay import transaction_marker
from barnabas.records.batch import CONTROL_BIT, LOG_OVERHEAD, BatchHeader
from barnabas.records.control import EndTransactionMarker

if TYPE_CHECKING:
    from barnabas.log.log import Log


class FollowerRun:
    """`add` each batch in turn, then `write` what is left."""

    __slots__ = ("_batches", "_end", "_headers", "_log", "_log_end", "_markers", "_now_ms", "_start")

    def __init__(self, log: Log, batches: memoryview, now_ms: int) -> None:
        self._log = log
        self._batches = batches
        self._now_ms = now_ms
        self._start = self._end = 0
        self._headers: list[BatchHeader] = []
        self._markers: dict[int, EndTransactionMarker | None] = {}
        self._log_end = log.offsets.end

    def add(self, position: int, header: BatchHeader) -> None:
        """KafkaError if it does not follow, or is damaged; those before it are to be written all the same."""
        (
            base_offset,
            length,
            _,
            _,
            _,
            attributes,
            last_offset_delta,
            _,
            max_timestamp,
            producer_id,
            _,
            _,
            _,
        ) = header
        size, last_offset = length + LOG_OVERHEAD, base_offset + last_offset_delta
        batch = self._batches[position : position + size]
        if base_offset < self._log_end and not self._headers:
            self._begin_again(header)
        check_follows(batch, header, self._log_end)
        marker = transaction_marker(batch, header) if attributes & CONTROL_BIT and producer_id >= 0 else None
        log = self._log
        if position != self._end:
            self.write()
            self._start = self._end = position
        written = log.segments.active.size + self._end - self._start
        if log.disk.writes is None and log.has_room_for(written, size, last_offset, max_timestamp):
            self._headers.append(header)
            if marker is not None:
                self._markers[base_offset] = marker
        else:
            self.write()
            self._write_alone(batch, header, marker)
            self._start = position + size
        self._end = position + size
        self._log_end = last_offset + 1

    def write(self) -> None:
        """All that was added and is not written yet."""
        headers, self._headers = self._headers, []
        if not headers:
            return
        log, markers = self._log, self._markers
        log.write_run(self._batches[self._start : self._end], headers)
        self._start = self._end
        for header in headers:
            log.note_followed(header, markers.get(header.base_offset), self._now_ms)

    def _write_alone(
        self, batch: memoryview, header: BatchHeader, marker: EndTransactionMarker | None
    ) -> None:
        """It may need a new segment, or has to wait for a slow disk."""
        log, writes = self._log, self._log.disk.writes
        if writes is None:
            log.write(batch, header.last_offset, header.max_timestamp, self._now_ms)
        else:
            writes.write(
                log, batch, header.last_offset, header.max_timestamp, header.producer_id, self._now_ms
            )
        log.note_followed(header, marker, self._now_ms)

    def _begin_again(self, header: BatchHeader) -> None:
        """DeleteRecords has moved the leader's log start into a batch; the batch is taken whole, as in Kafka."""
        log = self._log
        if self._log_end <= header.last_offset and (log.is_empty or not log.segments.size):
            log.truncate_fully_and_start_at(header.base_offset)
            self._log_end = log.offsets.end
