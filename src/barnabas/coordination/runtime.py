"""The runtime of all coordinators: one shard of state per led partition of an internal topic.

Theory of operation. A request is handled by a function of the shard, which changes no replayed state: it returns a
`CoordinatorResult`. Its records become one batch. If the append fails, the result is reverted and the request fails;
if it succeeds, the records are replayed immediately, so the state in memory always equals a replay of the log to its
end. The response and the replies are sent when everything up to the log end is durable: replicated and, if one host
holds the whole ISR, flushed to disk. Reads wait likewise, or they would expose state that a crash could revert.
Offset commits are independent of each other: those of one loop iteration share a batch, which is appended before any
other request is handled.

    not led --elected--> loading --(replayed to the end)--> active --resigned--> not led
                            |  ^
                        (fails)|
                            v  |
                          waiting for a retry

A request to a loading shard gets COORDINATOR_LOAD_IN_PROGRESS, immediately or after a short wait
(`when_loaded`). A request that is waiting when the shard is dropped, or for a shard that is not here, gets
NOT_COORDINATOR.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Generic, Protocol, TypeVar

from barnabas.common.clock import Clock, Timer
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.retry import Backoff
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.coordination.loading import AwaitingLoad, Loading
from barnabas.coordination.shard import (
    CoordinatorRecord,
    CoordinatorResult,
    Done,
    ProducerIdAndEpoch,
    R,
    ResultBatch,
    Shard,
    ignore,
    same_error,
)
from barnabas.log import Origin
from barnabas.records import EndTransactionMarker, Record, build_batch_at, end_transaction_marker
from barnabas.replication import ALL_REPLICAS, DelayedOperation, Durability, Partition, TimerLoop

logger = rate_limited_logger(__name__)

MAX_BATCH_BYTES = 128 << 10  # far below max.message.bytes, with room for the largest commit
# Seconds until a failed load is retried; doubled each time, because replaying a long log is expensive.
RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 60.0

S = TypeVar("S", bound=Shard)
Finish = Callable[[ErrorCode], None]
Waiting = dict["_DelayedResult", None]


class RuntimeEnvironment(TimerLoop, Protocol):
    """Parts of the broker that the runtime uses."""

    @property
    def clock(self) -> Clock: ...

    @property
    def durability(self) -> Durability: ...


class _DelayedResult(DelayedOperation):
    """A result that is not yet durable."""

    __slots__ = ("_finish", "_waiting")

    def __init__(self, loop: TimerLoop, finish: Finish, waiting: Waiting) -> None:
        super().__init__(loop)
        self._finish = finish
        self._waiting = waiting
        waiting[self] = None

    def end(self, error: ErrorCode) -> None:
        if self.complete():
            self._waiting.pop(self, None)
            self._finish(error)

    def try_complete(self) -> bool:
        return self.is_completed  # `end` is called when it is durable

    def on_expiration(self) -> None:
        """The records stay in the log; the client retries."""
        self.end(ErrorCode.REQUEST_TIMED_OUT)


class ActiveShard(Generic[S]):
    """A led partition and its shard."""

    __slots__ = ("awaiting_load", "batch", "loading", "partition", "shard", "waiting")

    def __init__(self, partition: Partition, shard: S, machine: RuntimeEnvironment) -> None:
        self.partition = partition
        self.shard = shard
        self.loading: Loading | None = None
        self.awaiting_load = AwaitingLoad(machine)
        self.batch: ResultBatch | None = None
        self.waiting: Waiting = {}


class CoordinatorRuntime(Generic[S]):
    """All shards of one internal topic on this broker."""

    def __init__(
        self,
        topic: str,
        make_shard: Callable[[int], S],
        machine: RuntimeEnvironment,
        write_timeout_ms: int,
        *,
        is_compacted: bool = True,
    ) -> None:
        self.topic = topic
        self._is_compacted = is_compacted
        self._make_shard = make_shard
        self._machine = machine
        self._write_timeout = write_timeout_ms / 1000
        self._active: dict[int, ActiveShard[S]] = {}
        self._to_load: deque[ActiveShard[S]] = deque()
        self._leaving: dict[int, ActiveShard[S]] = {}  # resignation failed half way
        self._retries: dict[int, tuple[Timer, Backoff]] = {}  # failed loads

    # -- leadership ---------------------------------------------------------------------------------

    def elected(self, partition: Partition) -> None:
        """Build the shard of a partition that this broker now leads."""
        self.resigned(partition.index)
        self._begin(partition)

    def _begin(self, partition: Partition) -> None:
        active = ActiveShard(partition, self._make_shard(partition.index), self._machine)
        self._active[partition.index] = active
        active.loading = Loading(
            partition.log, active.shard, self._machine.clock, every_record=not self._is_compacted
        )
        self._to_load.append(active)
        if len(self._to_load) == 1:
            self._machine.call_soon(self._load)

    def resigned(self, index: int) -> None:
        """Drop the shard and complete waiting requests with NOT_COORDINATOR."""
        if (retry := self._retries.pop(index, None)) is not None:
            retry[0].cancel()
        self._leave(index)

    def _leave(self, index: int) -> None:
        """Stop serving first; if a later step fails, the next call resumes there (KAFKA-9307)."""
        active = self._active.pop(index, None) or self._leaving.get(index)
        if active is None:
            return
        self._leaving[index] = active
        active.loading = None
        try:
            active.shard.unloaded()
        finally:
            batch, active.batch = active.batch, None
            if batch is not None:
                batch.reject(KafkaError(ErrorCode.NOT_COORDINATOR))
            for delayed in list(active.waiting):
                delayed.end(ErrorCode.NOT_COORDINATOR)
            active.awaiting_load.resume()
        del self._leaving[index]

    def stop(self) -> None:
        for index in {*self._active, *self._retries}:
            self.resigned(index)

    def _load(self) -> None:
        """Replay one slice of one shard at a time, so that the loop is never blocked."""
        active = self._to_load[0]
        has_loaded = True
        try:
            has_loaded = self._has_loaded(active)
        except Exception:
            # Whatever the cause (a bad disk, a record of a newer version), never serve from a partly replayed log.
            logger.exception("loading %s-%s failed; will retry", self.topic, active.partition.index)
            self._load_later(active.partition)
            self._leave(active.partition.index)
        finally:
            if has_loaded:
                self._to_load.popleft()
            if self._to_load:
                self._machine.call_soon(self._load)

    def _load_later(self, partition: Partition) -> None:
        """Retry with backoff: this broker still leads the partition, so no other broker will coordinate it."""
        index = partition.index
        known = self._retries.get(index)
        backoff = known[1] if known is not None else Backoff(RETRY_SECONDS, MAX_RETRY_SECONDS, jitter=0)
        timer = self._machine.timers.call_later(backoff.next_delay(), lambda: self._load_again(partition))
        self._retries[index] = (timer, backoff)

    def _load_again(self, partition: Partition) -> None:
        try:
            self._leave(partition.index)
        except Exception:
            logger.exception("resigning from %s-%s failed; will retry", self.topic, partition.index)
            self._load_later(partition)
        else:
            self._begin(partition)

    def _has_loaded(self, active: ActiveShard[S]) -> bool:
        """Run a slice; return True if the shard is loaded or no longer ours."""
        loading = active.loading
        if loading is None:
            return True  # resigned meanwhile
        if not loading.run_slice():
            return False
        active.loading = None
        active.shard.loaded()
        self._retries.pop(active.partition.index, None)
        active.awaiting_load.resume()
        return True

    def when_loaded(self, index: int, act: Callable[[], None]) -> None:
        """Call `act` now if the shard is not loading; otherwise when it is loaded, or after LOADING_SECONDS."""
        active = self._active.get(index)
        if active is None or active.loading is None:
            act()
        else:
            active.awaiting_load.add(act)

    @property
    def is_loading(self) -> bool:
        return any(active.loading is not None for active in self._active.values())

    def shards(self) -> Iterator[tuple[int, S]]:
        """The active shards, for requests about everything that this broker coordinates."""
        for index, active in list(self._active.items()):
            if active.loading is None:
                yield index, active.shard

    # -- requests -----------------------------------------------------------------------------------

    def write(
        self,
        index: int,
        handle: Callable[[S], CoordinatorResult[R]],
        done: Done[R] = ignore,
        *,
        is_batched: bool = False,
    ) -> None:
        """Handle a request that may change state; `done` gets the response once it is durable, or the error."""
        try:
            active = self.active_shard(index, is_batched=is_batched)
            result = handle(active.shard)
        except KafkaError as error:
            done(error)
            return
        result.reply_to(done, same_error)
        self.commit(active, result, is_batched=is_batched)

    def commit(
        self,
        active: ActiveShard[S],
        result: CoordinatorResult[R],
        *,
        producer: ProducerIdAndEpoch | None = None,
        is_batched: bool = False,
    ) -> None:
        """Append and replay the records of a result; send its replies once they are durable."""
        if is_batched:
            self._add_to_batch(active, result)
            return
        try:
            self._append(active, result.records, producer)
        except KafkaError as error:
            result.reject(error)
        else:
            self._when_durable(active, result.release)

    def _add_to_batch(self, active: ActiveShard[S], result: CoordinatorResult[R]) -> None:
        batch = active.batch
        if batch is None:
            batch = active.batch = ResultBatch()
            self._machine.call_soon(partial(self._write_batch, active))
        batch.add(result)
        if batch.size >= MAX_BATCH_BYTES:
            self._write_batch(active)

    def _write_batch(self, active: ActiveShard[S]) -> None:
        batch, active.batch = active.batch, None
        if batch is None:
            return
        try:
            self._append(active, batch.records)
        except KafkaError as error:
            batch.reject(error)
        else:
            self._when_durable(active, batch.release)

    def read(self, index: int, handle: Callable[[S], R], done: Done[R]) -> None:
        """Handle a request that changes no replayed state."""
        try:
            active = self.active_shard(index)
            result = handle(active.shard)
        except KafkaError as error:
            done(error)
            return
        self._when_durable(active, lambda error: done(KafkaError(error) if error else result))

    def complete_transaction(
        self, index: int, producer: ProducerIdAndEpoch, marker: EndTransactionMarker, done: Done[None]
    ) -> None:
        """Write the marker that ends a transaction in this partition, and apply or drop its pending records."""
        try:
            active = self.active_shard(index)
            now_ms = self._machine.clock.now_ms()
            batch = end_transaction_marker(*producer, marker, timestamp=now_ms)
            active.partition.append(memoryview(batch), now_ms, ALL_REPLICAS, Origin.COORDINATOR)
        except KafkaError as error:
            done(error)
            return
        active.shard.complete_transaction(producer, committed=marker.committed)
        self._when_durable(active, lambda error: done(KafkaError(error) if error else None))

    def active_shard(self, index: int, *, is_batched: bool = False) -> ActiveShard[S]:
        """Return the shard for a request, after appending the records of all requests before.

        `is_batched`: the outcome does not depend on other requests of the same loop iteration.
        """
        active = self._active.get(index)
        if active is None:
            raise KafkaError(
                ErrorCode.NOT_COORDINATOR, f"this broker does not coordinate {self.topic}-{index}"
            )
        if active.loading is not None:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self.topic}-{index} is loading")
        if active.batch is not None and not is_batched:
            self._write_batch(active)
        return active

    def _append(
        self,
        active: ActiveShard[S],
        records: list[CoordinatorRecord],
        producer: ProducerIdAndEpoch | None = None,
    ) -> None:
        """Append records as one batch and replay them; raise KafkaError, without any change, if the append
        fails.
        """
        if not records:
            return
        now_ms = self._machine.clock.now_ms()
        batch = build_batch_at(now_ms, records, *(producer or ()))
        result = active.partition.append(memoryview(batch), now_ms, ALL_REPLICAS, Origin.COORDINATOR)
        for offset, record in enumerate(records, result.first_offset):
            if record.effect is not None:
                record.effect(offset, producer)
            else:
                written = Record(offset, now_ms, record.key, record.value, record.headers)
                active.shard.replay(written, producer)

    # -- waiting ------------------------------------------------------------------------------------

    def _when_durable(self, active: ActiveShard[S], finish: Finish) -> None:
        """Call `finish` once the log is durable up to its current end."""
        partition, durability = active.partition, self._machine.durability
        end = partition.log.log_end_offset
        if durability.is_durable(partition, end):
            finish(ErrorCode.NONE)
            return
        delayed = _DelayedResult(self._machine, finish, active.waiting)
        durability.when(partition, end, delayed.end)
        delayed.wait(self._write_timeout)
