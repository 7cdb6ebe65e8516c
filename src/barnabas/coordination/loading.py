"""Replaying the log of an internal topic's partition, a few milliseconds at a time.

A compacted topic keeps of each key what was written last, and that is all a shard may need: compaction may have run.
So what compaction would remove is not replayed either. The log of a busy coordinator is mostly that: the same few keys
over and over, and a record that is passed over costs a third of one that is replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from barnabas.common.clock import Clock
from barnabas.coordination.shard import ProducerIdAndEpoch, Shard
from barnabas.log.log import Log
from barnabas.records.batch import BatchHeader, iterate_headers
from barnabas.records.control import parse_end_transaction
from barnabas.records.record import Record, iterate_records
from barnabas.replication.delayed import Loop

SLICE_SECONDS = 0.003
READ_BYTES = 256 << 10

# How long, and how many, requests may wait for a shard that is being loaded. librdkafka comes back half a second after
# COORDINATOR_LOAD_IN_PROGRESS, by a timer that has no setting; no client gives up a request within a second.
LOADING_SECONDS = 1.0
MOST_AWAITING_LOAD = 10_000


class Loading:
    """Where the replay of one log stands. `every_record`: of a topic that is not compacted, all of it counts."""

    def __init__(self, log: Log, shard: Shard, clock: Clock, *, every_record: bool = False) -> None:
        self._log = log
        self._shard = shard
        self._clock = clock
        self._every_record = every_record
        self._next_offset = 0
        self._last_of_key: dict[bytes | None, Record] = {}
        self._steps = self._replay()

    def run_slice(self) -> bool:
        """Replay for a few milliseconds; is the log end reached? Nothing is appended while we load."""
        deadline = self._clock.monotonic() + SLICE_SECONDS
        return all(self._clock.monotonic() < deadline for _ in self._steps)

    def _replay(self) -> Iterator[None]:
        """Batch by batch, and record by record where one is replayed."""
        self._next_offset = self._log.log_start_offset  # of now: others may have been loaded before us
        while self._next_offset < self._log.log_end_offset:
            found = self._log.read(self._next_offset, READ_BYTES, self._log.log_end_offset)
            data = memoryview(found if isinstance(found, bytes) else found.read())
            before = self._next_offset
            for position, header in iterate_headers(data):
                yield from self._replay_batch(data[position : position + header.size], header)
                self._next_offset = header.next_offset
            if self._next_offset == before:  # compaction has left nothing between here and the end
                self._next_offset = self._log.log_end_offset
        yield from self._replay_last_of_keys()

    def _replay_batch(self, batch: memoryview, header: BatchHeader) -> Iterator[None]:
        if self._every_record or header.is_transactional or header.is_control:
            # What a transaction leaves behind depends on what was written before, within it and without.
            yield from self._replay_last_of_keys()
            self._replay_in_order(batch, header)
        else:
            self._remember(batch, header)
        yield

    def _remember(self, batch: memoryview, header: BatchHeader) -> None:
        last = self._last_of_key
        for record in iterate_records(batch, header):
            if record.offset >= self._next_offset:
                last.pop(record.key, None)  # survivors stay in the order of the log, as with compaction
                last[record.key] = record

    def _replay_last_of_keys(self) -> Iterator[None]:
        last, self._last_of_key = self._last_of_key, {}
        for record in last.values():
            self._shard.replay(record, None)
            yield

    def _replay_in_order(self, batch: memoryview, header: BatchHeader) -> None:
        if header.is_control:
            if header.has_producer:
                self._complete(batch, header)
            return
        producer = (
            ProducerIdAndEpoch(header.producer_id, header.producer_epoch) if header.is_transactional else None
        )
        for record in iterate_records(batch, header):
            if record.offset >= self._next_offset:
                self._shard.replay(record, producer)

    def _complete(self, batch: memoryview, header: BatchHeader) -> None:
        for record in iterate_records(batch, header):
            marker = parse_end_transaction(record)
            if marker is not None:
                producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
                self._shard.complete_transaction(producer, committed=marker.committed)


class AwaitingLoad:
    """Requests for one shard that is being loaded. All go on together, at last when the first has waited too long."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._waiting: list[Callable[[], None]] = []

    def add(self, act: Callable[[], None]) -> None:
        waiting = self._waiting
        if len(waiting) >= MOST_AWAITING_LOAD:
            act()
            return
        waiting.append(act)
        if len(waiting) == 1:
            self._loop.timers.call_later(LOADING_SECONDS, lambda: self._expire(waiting))

    def _expire(self, waiting: list[Callable[[], None]]) -> None:
        if self._waiting is waiting:
            self.go_on()

    def go_on(self) -> None:
        """Each in its own call: one that fails concerns nobody else."""
        waiting, self._waiting = self._waiting, []
        for act in waiting:
            self._loop.call_soon(act)
