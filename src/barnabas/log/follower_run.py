"""Batches from the leader, checked one by one and written together.

A run is a sequence of batches that are consecutive in the response and fit into the active segment: one write. It ends
before a batch that may need a new segment, as the producer snapshot of a roll must include all earlier batches. If a
batch fails, the log has the complete batches before it, with their epochs and producers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.log.checks import check_follows
from barnabas.log.recovery.replay import transaction_marker
from barnabas.records import EndTransactionMarker
from barnabas.records.batch import CONTROL_BIT, LOG_OVERHEAD, BatchHeader

if TYPE_CHECKING:
    from barnabas.log.log import Log


class FollowerRun:
    """Call `add` for each batch, then `write` for the remaining ones."""

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
        """Add a batch; raise KafkaError if it does not continue the log or is corrupt. Call `write` in any case."""
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
            self._restart_within(header)
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
        """Write the added batches in one write."""
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
        """Write a batch that may need a new segment, or is passed to a slow disk's thread."""
        log, writes = self._log, self._log.disk.writes
        if writes is None:
            log.write(batch, header.last_offset, header.max_timestamp, self._now_ms)
        else:
            writes.write(
                log, batch, header.last_offset, header.max_timestamp, header.producer_id, self._now_ms
            )
        log.note_followed(header, marker, self._now_ms)

    def _restart_within(self, header: BatchHeader) -> None:
        """Restart an empty log at the batch's base offset, as in Kafka, if the leader's log start is inside it."""
        log = self._log
        if self._log_end <= header.last_offset and (log.is_empty or not log.segments.size):
            log.truncate_fully_and_start_at(header.base_offset)
            self._log_end = log.offsets.end
