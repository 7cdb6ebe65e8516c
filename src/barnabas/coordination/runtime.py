"""The runtime under every coordinator: a shard of state for each partition of an internal topic that we lead.

Theory of operation. A request is handled by a function of the shard, which changes nothing that a replay
could not bring back: it returns records and a result. The records become one batch. If the append fails, the request
fails and the shard is as it was; if it succeeds, the records are replayed at once, so that the state in
memory is always what a replay of the log to its end would give. The result is handed out when everything up to
the log end is safe: replicated, and on the disk where only this machine has it. Reads wait likewise, or
they would show what a crash could still take back. Commits of offsets do not depend on each other: those of one turn
of the loop share a batch, which is appended before anything else is handled.

    not led --elected--> loading --(replayed to the end)--> active --resigned--> not led
                            |  ^
                        (fails)|
                            v  |
                          waiting for another try

Whoever asks while a shard is loading is told COORDINATOR_LOAD_IN_PROGRESS; whoever waits when it goes,
or asks for one that is not here, NOT_COORDINATOR.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

from barnabas.clock import Clock, Timer, Timers
from barnabas.coordination.loading import Loading
from barnabas.coordination.shard import CoordinatorRecord, Producer, Shard
from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.log import Origin
from barnabas.log_lines import limited_logger
from barnabas.records.builder import build_batch
from barnabas.records.control import EndTransactionMarker, end_transaction_marker
from barnabas.records.record import Record
from barnabas.replication.partition import ALL_REPLICAS, Partition

logger = limited_logger(__name__)

MOST_BYTES_PER_TURN = 128 << 10  # far below max.message.bytes, with room for the largest commit on top
# Until a shard that could not be loaded is tried again; twice as long each time, because it may cost a long log.
RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 60.0

S = TypeVar("S", bound=Shard)
R = TypeVar("R")

Handle = Callable[[S], tuple[list[CoordinatorRecord], R]]
Done = Callable[[R | KafkaError], None]


class Machine(Protocol):
    """What the runtime needs from the broker around it."""

    @property
    def clock(self) -> Clock: ...

    @property
    def timers(self) -> Timers: ...

    @property
    def call_soon(self) -> Callable[[Callable[[], None]], object]:
        """Call a function in the next turn of the loop."""
        ...

    def is_safe(self, partition: Partition, offset: int) -> bool:
        """Is all below `offset` replicated and, where only this machine has it, flushed?"""
        ...

    def when_safe(self, partition: Partition, offset: int, callback: Callable[[ErrorCode], None]) -> None:
        """Call back when it is, or with what prevents it."""
        ...


class _Waiting:
    """A result that is not yet safe to hand out."""

    __slots__ = ("deadline", "finish")

    def __init__(self, deadline: float, finish: Callable[[ErrorCode], None]) -> None:
        self.deadline = deadline
        self.finish: Callable[[ErrorCode], None] | None = finish

    def end(self, error: ErrorCode) -> None:
        finish, self.finish = self.finish, None
        if finish is not None:
            finish(error)


class _Turn:
    """Records of several requests that shall go into one batch at the end of this turn of the loop."""

    __slots__ = ("done", "records", "size")

    def __init__(self) -> None:
        self.records: list[CoordinatorRecord] = []
        self.done: list[Done[None]] = []
        self.size = 0

    def add(self, records: list[CoordinatorRecord], done: Done[None]) -> None:
        self.records += records
        self.done.append(done)
        self.size += sum(len(record.key) + len(record.value or b"") for record in records)

    def finish(self, outcome: KafkaError | None) -> None:
        for done in self.done:
            done(outcome)


class _Active(Generic[S]):
    """A led partition and its shard."""

    __slots__ = ("loading", "partition", "shard", "turn", "waiting")

    def __init__(self, partition: Partition, shard: S) -> None:
        self.partition = partition
        self.shard = shard
        self.loading: Loading | None = None
        self.turn: _Turn | None = None
        self.waiting: deque[_Waiting] = deque()


class _Retry(NamedTuple):
    """When a shard that could not be loaded is tried again."""

    timer: Timer
    seconds: float


class Coordinator(Generic[S]):
    """All shards of one internal topic on this broker."""

    def __init__(
        self,
        topic: str,
        make_shard: Callable[[int], S],
        machine: Machine,
        write_timeout_ms: int,
        *,
        is_compacted: bool = True,
    ) -> None:
        self.topic = topic
        self._is_compacted = is_compacted
        self._make_shard = make_shard
        self._machine = machine
        self._write_timeout = write_timeout_ms / 1000
        self._active: dict[int, _Active[S]] = {}
        self._to_load: deque[_Active[S]] = deque()
        self._leaving: dict[int, _Active[S]] = {}  # dropped in part only
        self._retries: dict[int, _Retry] = {}  # could not be loaded
        self._sweeper: Timer | None = None

    # -- leadership ---------------------------------------------------------------------------------

    def elected(self, partition: Partition) -> None:
        """We lead this partition (again): build its shard from the log."""
        self.resigned(partition.index)
        self._begin(partition)

    def _begin(self, partition: Partition) -> None:
        active = _Active(partition, self._make_shard(partition.index))
        self._active[partition.index] = active
        active.loading = Loading(
            partition.log, active.shard, self._machine.clock, every_record=not self._is_compacted
        )
        self._to_load.append(active)
        if len(self._to_load) == 1:
            self._machine.call_soon(self._load)

    def resigned(self, index: int) -> None:
        """Somebody else leads: drop the shard and send whoever waits to the new coordinator."""
        if (retry := self._retries.pop(index, None)) is not None:
            retry.timer.cancel()
        self._leave(index)

    def _leave(self, index: int) -> None:
        """Serves nobody from the first line on; if it fails half way, the next call goes on with it (KAFKA-9307)."""
        active = self._active.pop(index, None) or self._leaving.get(index)
        if active is None:
            return
        self._leaving[index] = active
        active.loading = None
        try:
            active.shard.unloaded()
        finally:
            turn, active.turn = active.turn, None
            if turn is not None:
                turn.finish(KafkaError(ErrorCode.NOT_COORDINATOR))
            waiting, active.waiting = active.waiting, deque()
            for one in waiting:
                one.end(ErrorCode.NOT_COORDINATOR)
        del self._leaving[index]

    def stop(self) -> None:
        for index in {*self._active, *self._retries}:
            self.resigned(index)
        if self._sweeper is not None:
            self._sweeper.cancel()

    def _load(self) -> None:
        """One slice of replaying, one shard after the other: the loop serves others in between."""
        active = self._to_load[0]
        has_loaded = True
        try:
            has_loaded = self._has_loaded(active)
        except Exception:
            # Whatever it is (a bad disk, a record of a newer version), nobody is served from half of a log.
            logger.exception("%s-%s cannot be loaded; it is tried again", self.topic, active.partition.index)
            self._load_later(active.partition)
            self._leave(active.partition.index)
        finally:
            if has_loaded:
                self._to_load.popleft()
            if self._to_load:
                self._machine.call_soon(self._load)

    def _load_later(self, partition: Partition) -> None:
        """We still lead it, and nobody else will coordinate it: once more, later each time."""
        index = partition.index
        known = self._retries.get(index)
        seconds = min(known.seconds * 2, LONGEST_RETRY_SECONDS) if known is not None else RETRY_SECONDS
        timer = self._machine.timers.call_later(seconds, lambda: self._load_again(partition))
        self._retries[index] = _Retry(timer, seconds)

    def _load_again(self, partition: Partition) -> None:
        try:
            self._leave(partition.index)
        except Exception:
            logger.exception("%s-%s cannot be left; it is tried again", self.topic, partition.index)
            self._load_later(partition)
        else:
            self._begin(partition)

    def _has_loaded(self, active: _Active[S]) -> bool:
        """A slice later; true as well if there is nothing left to load."""
        loading = active.loading
        if loading is None:
            return True  # we have resigned meanwhile
        if not loading.run_slice():
            return False
        active.loading = None
        active.shard.loaded()
        self._retries.pop(active.partition.index, None)
        return True

    @property
    def is_loading(self) -> bool:
        return any(active.loading is not None for active in self._active.values())

    def shards(self) -> Iterator[tuple[int, S]]:
        """The shards that are ready, for requests about everything that this broker coordinates."""
        for index, active in list(self._active.items()):
            if active.loading is None:
                yield index, active.shard

    # -- requests -----------------------------------------------------------------------------------

    def write(
        self,
        index: int,
        handle: Handle[S, R],
        done: Done[R],
        *,
        producer: Producer | None = None,
        undo: Callable[[], None] | None = None,
    ) -> None:
        """Handle a request that may change state; `done` gets the result when it is safe, or the error.

        `undo` is called when the records could not be appended, for a handler that has changed more
        than a replay would bring back (who waits for what).
        """
        try:
            active = self._ready(index)
            records, result = handle(active.shard)
        except KafkaError as error:
            done(error)
            return
        try:
            if records:
                self._append(active, records, producer)
        except KafkaError as error:
            if undo is not None:
                undo()
            done(error)
            return
        self._when_safe(active, lambda error: done(KafkaError(error) if error else result))

    def write_in_turn(
        self, index: int, handle: Callable[[S], list[CoordinatorRecord]], done: Done[None]
    ) -> None:
        """Like `write`, for requests whose outcome does not depend on others of the same turn."""
        try:
            active = self._find(index)
            records = handle(active.shard)
        except KafkaError as error:
            done(error)
            return
        turn = active.turn
        if turn is None:
            turn = active.turn = _Turn()
            self._machine.call_soon(lambda: self._end_turn(active))
        turn.add(records, done)
        if turn.size >= MOST_BYTES_PER_TURN:
            self._end_turn(active)

    def _end_turn(self, active: _Active[S]) -> None:
        turn, active.turn = active.turn, None
        if turn is None:
            return
        try:
            self._append(active, turn.records, None)
        except KafkaError as error:
            turn.finish(error)
            return
        self._when_safe(active, lambda error: turn.finish(KafkaError(error) if error else None))

    def read(self, index: int, handle: Callable[[S], R], done: Done[R]) -> None:
        """Handle a request that changes nothing a replay would bring back."""
        try:
            active = self._ready(index)
            result = handle(active.shard)
        except KafkaError as error:
            done(error)
            return
        self._when_safe(active, lambda error: done(KafkaError(error) if error else result))

    def complete_transaction(
        self, index: int, producer: Producer, marker: EndTransactionMarker, done: Done[None]
    ) -> None:
        """Write the marker that ends a transaction in this partition, and let its pending records count."""
        try:
            active = self._ready(index)
            now_ms = self._machine.clock.now_ms()
            batch = end_transaction_marker(
                producer.producer_id, producer.producer_epoch, marker, timestamp=now_ms
            )
            active.partition.append(memoryview(batch), now_ms, ALL_REPLICAS, Origin.COORDINATOR)
        except KafkaError as error:
            done(error)
            return
        active.shard.complete_transaction(producer, committed=marker.committed)
        self._when_safe(active, lambda error: done(KafkaError(error) if error else None))

    def _ready(self, index: int) -> _Active[S]:
        """The shard, with everything appended that was handled before."""
        active = self._find(index)
        if active.turn is not None:
            self._end_turn(active)
        return active

    def _find(self, index: int) -> _Active[S]:
        active = self._active.get(index)
        if active is None:
            raise KafkaError(
                ErrorCode.NOT_COORDINATOR, f"this broker does not coordinate {self.topic}-{index}"
            )
        if active.loading is not None:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self.topic}-{index} is being loaded")
        return active

    def _append(
        self, active: _Active[S], records: list[CoordinatorRecord], producer: Producer | None
    ) -> None:
        now_ms = self._machine.clock.now_ms()
        stamped = [Record(0, now_ms, record.key, record.value, record.headers) for record in records]
        if producer is None:
            batch = build_batch(stamped)
        else:
            batch = build_batch(stamped, **producer._asdict(), transactional=True)
        result = active.partition.append(memoryview(batch), now_ms, ALL_REPLICAS, Origin.COORDINATOR)
        for offset, record in enumerate(records, result.first_offset):
            if record.effect is not None:
                record.effect(offset, producer)
            else:
                written = Record(offset, now_ms, record.key, record.value, record.headers)
                active.shard.replay(written, producer)

    # -- waiting ------------------------------------------------------------------------------------

    def _when_safe(self, active: _Active[S], finish: Callable[[ErrorCode], None]) -> None:
        """Finish when the log is safe up to its present end; at once if it is."""
        partition = active.partition
        if self._machine.is_safe(partition, partition.log.log_end_offset):
            finish(ErrorCode.NONE)
            return
        waiting = _Waiting(self._machine.clock.monotonic() + self._write_timeout, finish)
        self._machine.when_safe(active.partition, active.partition.log.log_end_offset, waiting.end)
        if waiting.finish is None:
            return
        while active.waiting and active.waiting[0].finish is None:
            active.waiting.popleft()
        active.waiting.append(waiting)
        if self._sweeper is None:
            self._sweeper = self._machine.timers.call_later(self._write_timeout, self._sweep)

    def _sweep(self) -> None:
        """End what has waited too long; the records stay written, and the client will ask again."""
        self._sweeper = None
        now = self._machine.clock.monotonic()
        for active in list(self._active.values()):
            while active.waiting and (active.waiting[0].finish is None or active.waiting[0].deadline <= now):
                active.waiting.popleft().end(ErrorCode.REQUEST_TIMED_OUT)
        deadlines = [active.waiting[0].deadline for active in self._active.values() if active.waiting]
        if deadlines and self._sweeper is None:
            self._sweeper = self._machine.timers.call_later(min(deadlines) - now, self._sweep)
