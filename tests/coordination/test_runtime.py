"""The runtime with a minimal shard that stores the last value of each key."""

from __future__ import annotations

import errno

import pytest

from barnabas.cluster.image import PartitionState
from barnabas.common.clock import ManualClock
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.coordination.loading import LOADING_SECONDS, MAX_AWAITING_LOAD, READ_BYTES
from barnabas.coordination.runtime import (
    MAX_BATCH_BYTES,
    MAX_RETRY_SECONDS,
    RETRY_SECONDS,
    CoordinatorRuntime,
)
from barnabas.coordination.shard import (
    PARKED,
    CoordinatorRecord,
    CoordinatorResult,
    ProducerIdAndEpoch,
    Reply,
    same_error,
)
from barnabas.metrics.topics import TopicCounters
from barnabas.protocol.wire import ProtocolError
from barnabas.records.control import EndTransactionMarker
from barnabas.records.record import Record
from barnabas.replication.partition import Partition
from barnabas.testing.files import FaultyFileSystem
from tests.groups.simulation import Machine
from tests.support.builders.logs import TOPIC_ID, new_log

WRITE_TIMEOUT_MS = 5000
PRODUCER = ProducerIdAndEpoch(7, 0)


class Memory:
    """A shard: values by key, those of open transactions apart."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.values: dict[bytes, bytes | None] = {}
        self.pending: dict[ProducerIdAndEpoch, dict[bytes, bytes | None]] = {}
        self.life: list[str] = []

    def replay(self, record: Record, producer: ProducerIdAndEpoch | None) -> None:
        assert record.key is not None
        if record.key == b"poison":
            raise ProtocolError("not what it should be")
        place = self.values if producer is None else self.pending.setdefault(producer, {})
        place[record.key] = record.value

    def complete_transaction(self, producer: ProducerIdAndEpoch, *, committed: bool) -> None:
        values = self.pending.pop(producer, {})
        if committed:
            self.values.update(values)

    def loaded(self) -> None:
        self.life.append("loaded")

    def unloaded(self) -> None:
        self.life.append("unloaded")


class Setup:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.files = FaultyFileSystem()
        self.machine = Machine(self.clock)
        self.log = new_log("/data/topic-0", fs=self.files)
        self.partition = Partition("topic", 0, TOPIC_ID, self.log, 1, TopicCounters("topic"))
        self.partition.apply(PartitionState((1,), (1,), 1))
        self.shards: list[Memory] = []
        self.coordinator = CoordinatorRuntime("topic", self._make, self.machine, WRITE_TIMEOUT_MS)
        self.heard: list[object] = []

    def _make(self, index: int) -> Memory:
        self.shards.append(Memory(index))
        return self.shards[-1]

    def load(self) -> Memory:
        self.coordinator.elected(self.partition)
        self.machine.run_soon()
        return self.shards[-1]

    def hear(self, outcome: object) -> None:
        self.heard.append(outcome.code if isinstance(outcome, KafkaError) else outcome)

    def write(self, key: bytes, value: bytes | None, producer: ProducerIdAndEpoch | None = None) -> None:
        record = CoordinatorRecord(key, value)
        result = CoordinatorResult("done", [record])
        result.reply_to(self.hear, same_error)
        try:
            self.coordinator.commit(self.coordinator.active_shard(0), result, producer=producer)
        except KafkaError as error:
            self.hear(error)

    def write_batched(self, key: bytes, value: bytes) -> None:
        record = CoordinatorRecord(key, value)
        self.coordinator.write(0, lambda shard: CoordinatorResult(None, [record]), self.hear, is_batched=True)

    def read(self, key: bytes) -> None:
        self.coordinator.read(0, lambda shard: shard.values.get(key), self.hear)


@pytest.fixture
def setup() -> Setup:
    return Setup()


def test_written_entries_are_in_memory_and_in_the_log(setup: Setup) -> None:
    setup.load()
    setup.write(b"a", b"1")
    setup.write(b"b", b"2")
    setup.write(b"a", None)
    assert setup.heard == ["done"] * 3
    live = setup.shards[-1].values
    assert live == {b"a": None, b"b": b"2"}
    assert setup.load().values == live
    assert [shard.life for shard in setup.shards] == [["loaded", "unloaded"], ["loaded"]]


def test_request_for_a_foreign_shard_gets_not_coordinator(setup: Setup) -> None:
    setup.read(b"a")
    setup.load()
    setup.coordinator.resigned(0)
    setup.write(b"a", b"1")
    assert setup.heard == [ErrorCode.NOT_COORDINATOR] * 2
    assert setup.log.log_end_offset == 0


def test_a_shard_that_is_being_loaded_asks_for_patience(setup: Setup) -> None:
    setup.coordinator.elected(setup.partition)
    assert setup.coordinator.is_loading
    setup.write(b"a", b"1")
    setup.read(b"a")
    assert setup.heard == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2
    setup.machine.run_soon()
    assert not setup.coordinator.is_loading


def test_request_that_can_wait_is_served_when_the_shard_is_loaded(setup: Setup) -> None:
    setup.coordinator.elected(setup.partition)
    setup.coordinator.when_loaded(0, lambda: setup.write(b"a", b"1"))
    setup.coordinator.when_loaded(0, lambda: setup.read(b"a"))
    assert setup.heard == []
    setup.machine.run_soon()
    assert setup.heard == ["done", b"1"]
    setup.clock.advance(round(2000 * LOADING_SECONDS))
    setup.machine.run_soon()
    setup.coordinator.when_loaded(0, lambda: setup.read(b"a"))
    assert setup.heard == ["done", b"1", b"1"]


def test_waiters_for_a_shard_are_notified_of_a_slow_load_or_its_loss(setup: Setup) -> None:
    setup.coordinator.elected(setup.partition)
    soon = setup.machine.soon
    setup.machine.soon = []  # nothing is loaded
    setup.coordinator.when_loaded(0, lambda: setup.read(b"a"))
    setup.clock.advance(round(1000 * LOADING_SECONDS))
    setup.machine.run_soon()
    assert setup.heard == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    setup.coordinator.when_loaded(0, lambda: setup.read(b"a"))
    setup.coordinator.resigned(0)
    setup.machine.soon += soon
    setup.machine.run_soon()
    assert setup.heard == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]


def test_no_more_wait_for_a_shard_than_there_is_room_for(setup: Setup) -> None:
    setup.coordinator.elected(setup.partition)
    for _ in range(MAX_AWAITING_LOAD + 1):
        setup.coordinator.when_loaded(0, lambda: setup.read(b"a"))
    assert setup.heard == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    setup.machine.run_soon()
    assert setup.heard[1:] == [None] * MAX_AWAITING_LOAD


def test_a_long_log_is_loaded_in_slices(setup: Setup) -> None:
    setup.load()
    for number in range(40):
        setup.write(b"key-%d" % number, bytes(READ_BYTES // 10))
    slices = 0

    class Impatient(ManualClock):
        def monotonic(self) -> float:
            nonlocal slices
            slices += 1
            return float(slices)

    setup.machine.clock = Impatient()
    assert len(setup.load().values) == 40
    assert slices > 4


def test_results_wait_until_they_are_safe_and_reads_too(setup: Setup) -> None:
    setup.load()
    setup.machine.holding = True
    setup.write(b"a", b"1")
    setup.read(b"a")
    assert setup.heard == []
    setup.machine.release()
    assert setup.heard == ["done", b"1"]


def test_waiters_of_a_removed_shard_get_not_coordinator(setup: Setup) -> None:
    setup.load()
    setup.machine.holding = True
    setup.write(b"a", b"1")
    setup.coordinator.resigned(0)
    setup.machine.release()
    assert setup.heard == [ErrorCode.NOT_COORDINATOR]


def test_waiting_ends_at_the_timeout(setup: Setup) -> None:
    setup.load()
    setup.machine.holding = True
    setup.write(b"a", b"1")
    setup.clock.advance(2 * WRITE_TIMEOUT_MS)
    assert setup.heard == [ErrorCode.REQUEST_TIMED_OUT]
    assert setup.shards[-1].values == {b"a": b"1"}, "it is written all the same"


def test_later_waiter_waits_no_longer_than_the_first(setup: Setup) -> None:
    setup.load()
    setup.machine.holding = True
    setup.write(b"a", b"1")
    setup.clock.advance(WRITE_TIMEOUT_MS // 2)
    setup.write(b"b", b"1")
    setup.clock.advance(WRITE_TIMEOUT_MS)
    assert setup.heard == [ErrorCode.REQUEST_TIMED_OUT] * 2


def test_failed_append_changes_nothing(setup: Setup) -> None:
    shard = setup.load()
    setup.files.fail_at(1, OSError(errno.ENOSPC, "no space left"), "append")
    setup.write(b"a", b"1")
    assert setup.heard == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert (shard.values, setup.log.log_end_offset) == ({}, 0)


def test_requests_of_one_iteration_share_their_outcome(setup: Setup) -> None:
    shard = setup.load()
    setup.files.fail_at(1, OSError(errno.ENOSPC, "no space left"), "append")
    for value in (b"1", b"2"):
        setup.write_batched(b"a", value)
    setup.machine.run_soon()
    assert setup.heard == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert shard.values == {}


def test_slice_interrupted_by_the_loss_of_the_shard_is_rejected(setup: Setup) -> None:
    setup.load()
    setup.write_batched(b"a", b"1")
    setup.coordinator.resigned(0)
    setup.machine.run_soon()
    assert (setup.heard, setup.log.log_end_offset) == ([ErrorCode.NOT_COORDINATOR], 0)


def test_slice_does_not_exceed_the_maximum_batch(setup: Setup) -> None:
    setup.load()
    for _ in range(10):
        setup.write_batched(b"a", bytes(MAX_BATCH_BYTES // 4))
    assert setup.log.log_end_offset == 8
    setup.machine.run_soon()
    assert setup.heard == [None] * 10


def test_a_refused_request_changes_nothing(setup: Setup) -> None:
    setup.load()

    def refuse(shard: Memory) -> CoordinatorResult[None]:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    setup.coordinator.write(0, refuse, setup.hear)
    assert setup.heard == [ErrorCode.ILLEGAL_GENERATION]


def result_with_reply(
    setup: Setup, response: object, *records: CoordinatorRecord
) -> CoordinatorResult[object]:
    """A result that completes a parked request, and notes its revert."""
    reply = Reply(setup.hear, "parked", lambda error: ("parked", error.code))
    return CoordinatorResult(response, [*records], [reply], lambda: setup.hear("reverted"))


def test_a_reply_to_a_parked_request_follows_the_response(setup: Setup) -> None:
    setup.load()
    result = result_with_reply(setup, "done", CoordinatorRecord(b"a", b"1"))
    setup.machine.holding = True
    setup.coordinator.write(0, lambda shard: result, setup.hear)
    assert setup.heard == []
    setup.machine.release()
    assert setup.heard == ["done", "parked"]


def test_a_result_that_cannot_be_appended_is_reverted_and_then_answered(setup: Setup) -> None:
    setup.load()
    setup.files.fail_at(1, OSError(errno.ENOSPC, "no space left"), "append")
    result = result_with_reply(setup, "done", CoordinatorRecord(b"a", b"1"))
    setup.coordinator.write(0, lambda shard: result, setup.hear)
    error = ErrorCode.KAFKA_STORAGE_ERROR
    assert setup.heard == ["reverted", error, ("parked", error)]


def test_a_result_in_the_log_that_does_not_become_durable_is_not_reverted(setup: Setup) -> None:
    shard = setup.load()
    result = result_with_reply(setup, "done", CoordinatorRecord(b"a", b"1"))
    setup.machine.holding = True
    setup.coordinator.write(0, lambda shard: result, setup.hear)
    setup.clock.advance(WRITE_TIMEOUT_MS + 1)
    error = ErrorCode.REQUEST_TIMED_OUT
    assert setup.heard == [error, ("parked", error)]
    assert shard.values == {b"a": b"1"}


@pytest.mark.parametrize("fails", [True, False])
def test_a_parked_request_is_not_answered_by_its_own_result(setup: Setup, fails: bool) -> None:
    setup.load()
    if fails:
        setup.files.fail_at(1, OSError(errno.ENOSPC, "no space left"), "append")
    result = CoordinatorResult(PARKED, [CoordinatorRecord(b"a", b"1")])
    setup.coordinator.write(0, lambda shard: result, setup.hear)
    assert setup.heard == []


def test_a_batch_that_is_never_appended_is_reverted(setup: Setup) -> None:
    setup.load()
    result = result_with_reply(setup, "done", CoordinatorRecord(b"a", b"1"))
    setup.coordinator.write(0, lambda shard: result, setup.hear, is_batched=True)
    setup.coordinator.resigned(0)
    error = ErrorCode.NOT_COORDINATOR
    assert setup.heard == ["reverted", error, ("parked", error)]


@pytest.mark.parametrize("committed", [True, False])
def test_records_of_a_transaction_count_when_it_is_committed(setup: Setup, committed: bool) -> None:
    shard = setup.load()
    setup.write(b"a", b"1", PRODUCER)
    setup.write(b"b", b"2", PRODUCER)
    assert (shard.values, shard.pending) == ({}, {PRODUCER: {b"a": b"1", b"b": b"2"}})
    assert setup.load().pending == shard.pending
    setup.coordinator.complete_transaction(0, PRODUCER, EndTransactionMarker(committed, 0), setup.hear)
    assert setup.heard == ["done", "done", None]
    assert setup.shards[-1].values == ({b"a": b"1", b"b": b"2"} if committed else {})
    assert setup.load().values == setup.shards[-2].values


def test_a_log_that_cannot_be_understood_is_not_served(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    setup.load()
    with pytest.raises(ProtocolError):
        setup.write(b"poison", b"")
    setup.load()
    setup.read(b"a")
    assert setup.heard == [ErrorCode.NOT_COORDINATOR]
    assert "loading topic-0 failed" in caplog.text


def test_shards_are_loaded_one_after_the_other(setup: Setup) -> None:
    """Loading many concurrently would leave no time for other requests between their slices."""
    setup.load()
    for number in range(20):
        setup.write(b"key-%d" % number, b"1")
    others = [
        Partition("topic", index, TOPIC_ID, setup.log, 1, TopicCounters("topic")) for index in range(1, 9)
    ]
    for other in others:
        other.apply(PartitionState((1,), (1,), 1))
        setup.coordinator.elected(other)
    assert len(setup.machine.soon) == 1
    setup.machine.run_soon()
    assert [len(shard.values) for shard in setup.shards] == [20] * 9


def test_shard_removed_while_it_waits_to_be_loaded_blocks_no_other(setup: Setup) -> None:
    other = Partition("topic", 1, TOPIC_ID, setup.log, 1, TopicCounters("topic"))
    other.apply(PartitionState((1,), (1,), 1))
    setup.coordinator.elected(setup.partition)
    setup.coordinator.elected(other)
    setup.coordinator.resigned(0)
    setup.machine.run_soon()
    assert [shard.life for shard in setup.shards] == [["unloaded"], ["loaded"]]


def test_shard_that_fails_at_the_end_of_its_load_blocks_no_other(setup: Setup) -> None:
    setup.load()
    setup.write(b"a", b"1")

    def fail() -> None:
        raise OSError("no timers today")

    other = Partition("topic", 1, TOPIC_ID, setup.log, 1, TopicCounters("topic"))
    other.apply(PartitionState((1,), (1,), 1))
    setup.coordinator.elected(setup.partition)
    setup.shards[-1].loaded = fail  # type: ignore[method-assign]
    setup.coordinator.elected(other)
    setup.machine.run_soon()
    assert setup.shards[-1].life == ["loaded"]
    setup.read(b"a")
    assert setup.heard[-1] is ErrorCode.NOT_COORDINATOR


def test_a_load_that_fails_half_way_is_tried_again_from_the_beginning(setup: Setup) -> None:
    """No other broker coordinates it, because this one leads the partition (KAFKA-9307)."""
    setup.load()
    setup.write(b"a", b"1")
    setup.files.fail_at(1, OSError(errno.EMFILE, "too many open files"), "read", forever=True)
    setup.load()
    setup.read(b"a")
    assert setup.heard[-1] is ErrorCode.NOT_COORDINATOR
    for delay in (RETRY_SECONDS, 2 * RETRY_SECONDS):  # and again, later each time
        setup.clock.advance(round(delay * 1000))
        setup.machine.run_soon()
        setup.read(b"a")
        assert setup.heard[-1] is ErrorCode.NOT_COORDINATOR
    setup.files.heal()
    setup.clock.advance(round(4 * RETRY_SECONDS * 1000))
    setup.machine.run_soon()
    setup.read(b"a")
    assert setup.heard[-1] == b"1"  # type: ignore[comparison-overlap]


def test_removed_shard_is_not_loaded_again(setup: Setup) -> None:
    setup.load()
    setup.write(b"a", b"1")
    setup.files.fail_at(1, OSError(errno.EMFILE, "too many open files"), "read")
    setup.load()
    setup.coordinator.resigned(0)
    loaded = len(setup.shards)
    setup.clock.advance(round(MAX_RETRY_SECONDS * 1000))
    setup.machine.run_soon()
    assert len(setup.shards) == loaded


def test_partially_failed_resignation_stops_serving_and_can_be_repeated(setup: Setup) -> None:
    shard = setup.load()
    setup.machine.holding = True
    setup.write(b"a", b"1")
    failures = [OSError("a timer cannot be cancelled")]
    unload = shard.unloaded

    def fail_once() -> None:
        if failures:
            raise failures.pop()
        unload()

    shard.unloaded = fail_once  # type: ignore[method-assign]
    with pytest.raises(OSError, match="cannot be cancelled"):
        setup.coordinator.resigned(0)
    assert setup.heard == [ErrorCode.NOT_COORDINATOR]  # waiters are still notified
    setup.read(b"a")
    assert setup.heard[-1] is ErrorCode.NOT_COORDINATOR
    setup.coordinator.resigned(0)
    assert shard.life == ["loaded", "unloaded"]
    setup.coordinator.resigned(0)
    assert shard.life == ["loaded", "unloaded"]
