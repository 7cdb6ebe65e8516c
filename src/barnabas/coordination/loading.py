"""Replaying the log of an internal topic's partition, a few milliseconds at a time."""

from __future__ import annotations

from barnabas.clock import Clock
from barnabas.coordination.shard import Producer, Shard
from barnabas.log.log import Log
from barnabas.records.batch import BatchHeader, iterate_headers
from barnabas.records.control import parse_end_transaction
from barnabas.records.record import iterate_records

SLICE_SECONDS = 0.003
READ_BYTES = 256 << 10


class Loading:
    """Where the replay of one log stands."""

    def __init__(self, log: Log, shard: Shard, clock: Clock) -> None:
        self._log = log
        self._shard = shard
        self._clock = clock
        self._next_offset = log.log_start_offset

    def run_slice(self) -> bool:
        """Replay for a few milliseconds; is the log end reached? Nothing is appended while we load."""
        deadline = self._clock.monotonic() + SLICE_SECONDS
        while self._next_offset < self._log.log_end_offset:
            self._replay_some()
            if self._clock.monotonic() >= deadline:
                break
        return self._next_offset >= self._log.log_end_offset

    def _replay_some(self) -> None:
        found = self._log.read(self._next_offset, READ_BYTES, self._log.log_end_offset)
        data = memoryview(found if isinstance(found, bytes) else found.read())
        before = self._next_offset
        for position, header in iterate_headers(data):
            self._replay_batch(data[position : position + header.size], header)
            self._next_offset = header.next_offset
        if self._next_offset == before:  # compaction has left nothing between here and the end
            self._next_offset = self._log.log_end_offset

    def _replay_batch(self, batch: memoryview, header: BatchHeader) -> None:
        if header.is_control:
            if header.has_producer:
                self._complete(batch, header)
            return
        producer = Producer(header.producer_id, header.producer_epoch) if header.is_transactional else None
        for record in iterate_records(batch, header):
            if record.offset >= self._next_offset:
                self._shard.replay(record, producer)

    def _complete(self, batch: memoryview, header: BatchHeader) -> None:
        for record in iterate_records(batch, header):
            marker = parse_end_transaction(record)
            if marker is not None:
                producer = Producer(header.producer_id, header.producer_epoch)
                self._shard.complete_transaction(producer, committed=marker.committed)
