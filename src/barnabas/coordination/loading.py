"""Replay of an internal topic's partition, a few milliseconds at a time.

A shard needs only the latest record of each key, because compaction may have run. Records that compaction
would
remove are therefore not replayed. The log of a busy coordinator consists mostly of these, and skipping a
record
costs a third of replaying it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from barnabas.common.clock import Clock
from barnabas.coordination.shard import ProducerIdAndEpoch, Shard
from barnabas.log import Log
from barnabas.records import Record, iterate_records, parse_end_transaction
from barnabas.records.batch import BatchHeader, iterate_headers
from barnabas.replication import TimerLoop

SLICE_SECONDS = 0.003
READ_BYTES = 256 << 10

# Time limit and count limit of requests that wait for a shard to load. librdkafka retries half a second after
# COORDINATOR_LOAD_IN_PROGRESS, with a fixed timer; no client abandons a request within a second.
LOADING_SECONDS = 1.0
MAX_AWAITING_LOAD = 10_000


class Loading:
    """Progress of the replay of one log.

    `every_record`: replay all records, for a topic that is not compacted.
    """

    def __init__(self, log: Log, shard: Shard, clock: Clock, *, every_record: bool = False) -> None:
        self._log = log
        self._shard = shard
        self._clock = clock
        self._every_record = every_record
        self._next_offset = 0
        self._last_of_key: dict[bytes | None, Record] = {}
        self._steps = self._replay()

    def run_slice(self) -> bool:
        """Replay for a few milliseconds; return True at the log end. Nothing is appended during the load."""
        deadline = self._clock.monotonic() + SLICE_SECONDS
        return all(self._clock.monotonic() < deadline for _ in self._steps)

    def _replay(self) -> Iterator[None]:
        """Replay batch by batch, yielding after each batch or replayed record."""
        self._next_offset = self._log.log_start_offset  # read now: other shards may have been loaded first
        while self._next_offset < self._log.log_end_offset:
            found = self._log.read(self._next_offset, READ_BYTES, self._log.log_end_offset)
            data = memoryview(found if isinstance(found, bytes) else found.read())
            before = self._next_offset
            for position, header in iterate_headers(data):
                yield from self._replay_batch(data[position : position + header.size], header)
                self._next_offset = header.next_offset
            if self._next_offset == before:  # compaction removed the rest
                self._next_offset = self._log.log_end_offset
        yield from self._replay_last_of_keys()

    def _replay_batch(self, batch: memoryview, header: BatchHeader) -> Iterator[None]:
        if self._every_record or header.is_transactional or header.is_control:
            # The result of a transaction depends on earlier records, inside and outside of it.
            yield from self._replay_last_of_keys()
            self._replay_in_order(batch, header)
        else:
            self._remember(batch, header)
        yield

    def _remember(self, batch: memoryview, header: BatchHeader) -> None:
        last = self._last_of_key
        for record in iterate_records(batch, header):
            if record.offset >= self._next_offset:
                last.pop(record.key, None)  # survivors keep log order, as with compaction
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
    """Requests that wait for one shard to load.

    All resume together, when it is loaded or the first has timed out.
    """

    def __init__(self, loop: TimerLoop) -> None:
        self._loop = loop
        self._waiting: list[Callable[[], None]] = []

    def add(self, act: Callable[[], None]) -> None:
        waiting = self._waiting
        if len(waiting) >= MAX_AWAITING_LOAD:
            act()
            return
        waiting.append(act)
        if len(waiting) == 1:
            self._loop.timers.call_later(LOADING_SECONDS, lambda: self._expire(waiting))

    def _expire(self, waiting: list[Callable[[], None]]) -> None:
        if self._waiting is waiting:
            self.resume()

    def resume(self) -> None:
        """Resume each request in its own call, so that one failure does not affect the others."""
        waiting, self._waiting = self._waiting, []
        for act in waiting:
            self._loop.call_soon(act)
