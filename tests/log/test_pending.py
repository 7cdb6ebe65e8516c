"""Pending appends on a slow disk: visibility before they are written, and failures."""

import errno
import random
from collections.abc import Callable

import pytest

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.config.topic import LogConfig
from barnabas.log.dirs import slow_writes
from barnabas.log.failures import DiskFull
from barnabas.log.log import Log
from barnabas.log.recovery.snapshots import encode_snapshot
from barnabas.testing.files import FaultyFileSystem
from tests.support.builders.logs import (
    PARTITION,
    TOPIC_ID,
    append,
    batch,
    end_transaction,
    get,
    loaded,
    managed,
    marker,
    new_log,
    produced,
    read_all,
)

FULL = OSError(errno.ENOSPC, "no room")
BROKEN = OSError(errno.EIO, "broken")


class ManualThread:
    """A thread that runs on demand."""

    def __init__(self) -> None:
        self._jobs: list[tuple[Callable[[], None], Callable[[OSError | None], None]]] = []

    def run(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        self._jobs.append((work, done))

    def take_turn(self, number: int = 0) -> None:
        work, done = self._jobs.pop(number)
        work()
        done(None)

    def finish(self) -> None:
        while self._jobs:
            self.take_turn()

    def close(self) -> None:
        """Nothing is running."""


def slowed_down(log: Log) -> ManualThread:
    """Let a thread write to the disk of a log."""
    thread = ManualThread()
    log.disk.use_thread_when_slow(100, lambda: thread, lambda: 0.0)
    log.disk.write_in_thread()
    return thread


def code(log: Log, data: bytearray) -> ErrorCode:
    with pytest.raises(KafkaError) as refusal:
        append(log, data)
    return refusal.value.code


def offsets(log: Log) -> tuple[int, int, int]:
    return log.offsets.high_watermark, log.offsets.written, log.offsets.end


@pytest.fixture
def fs() -> FaultyFileSystem:
    return FaultyFileSystem()


@pytest.fixture
def log(fs: FaultyFileSystem) -> Log:
    return new_log("/data/orders-0", fs=fs)


def test_pending_records_have_offsets_and_are_neither_read_nor_committed(log: Log) -> None:
    append(log, batch(b"a"))
    thread = slowed_down(log)
    assert append(log, batch(b"b", b"c")).first_offset == 1
    assert append(log, batch(b"d")).first_offset == 3
    assert offsets(log) == (1, 1, 4)
    assert read_all(log) == [(0, b"a")]
    assert log.read(1, 1000, log.log_end_offset) == b""
    thread.finish()
    log.commit_written()
    assert offsets(log) == (4, 4, 4)
    assert [value for _, value in read_all(log)] == [b"a", b"b", b"c", b"d"]


def test_the_bytes_are_copied_out_of_the_receive_buffer(log: Log) -> None:
    thread = slowed_down(log)
    buffer = batch(b"mine")
    append(log, buffer)
    buffer[:] = bytes(len(buffer))
    thread.finish()
    assert read_all(log) == [(0, b"mine")]


def test_listeners_are_notified_of_writes(log: Log) -> None:
    heard: list[int] = []
    log.watch_pending(heard.append, lambda: heard.append(-1))
    thread = slowed_down(log)
    first, second = batch(b"a"), batch(b"bb")
    append(log, first)  # the thread begins with it
    append(log, second)
    thread.take_turn()
    assert (heard, log.has_pending) == ([len(first)], True)
    thread.take_turn()
    assert (heard, log.has_pending) == ([len(first), len(second)], False)


def test_a_callback_that_appends_does_not_end_the_step_it_begins(fs: FaultyFileSystem, log: Log) -> None:
    """With one in-sync replica, a response admits the next request, which appends immediately."""
    thread = slowed_down(log)
    more = [batch(b"b")]
    log.watch_pending(lambda size: _append_next(log, more), lambda: None)
    append(log, batch(b"a"))
    thread.take_turn()  # "a" is written, and "b" appended because of that
    assert (offsets(log)[1:], log.has_pending) == ((1, 2), True)
    append(log, batch(b"c"))
    thread.finish()
    log.commit_written()
    assert read_all(log) == [(0, b"a"), (1, b"b"), (2, b"c")]
    after, report = loaded(fs.crash(lose_unsynced=False))
    assert (read_all(get(after)), report.damaged) == (read_all(log), {})


def test_appends_of_callbacks_are_counted_once(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    thread = slowed_down(log)
    monkeypatch.setattr(slow_writes, "MAX_PENDING_BYTES", 2 * len(batch(b"x")))
    more = [batch(b"x") for _ in range(20)]
    log.watch_pending(lambda size: _append_next(log, more), lambda: None)
    append(log, batch(b"x"))
    thread.finish()
    assert (log.offsets.written, log.has_pending) == (21, False)
    assert isinstance(log.disk.writes, slow_writes.PendingWrites)
    assert log.disk.writes.bytes == 0


@pytest.mark.parametrize("waiting", [[], [b"b"]])
def test_truncation_drops_concurrent_appends_of_a_callback(log: Log, waiting: list[bytes]) -> None:
    thread = slowed_down(log)
    append(log, batch(b"a"))
    thread._jobs[0][0]()  # written, but the loop is not notified yet
    for value in waiting:
        append(log, batch(value))
    more = [batch(b"c"), batch(b"d")]
    log.watch_pending(lambda size: _append_next(log, more), lambda: _append_next(log, more))
    log.truncate_to(1)
    assert (offsets(log)[1:], log.has_pending) == ((1, 1), False)
    append(log, batch(b"e"))
    thread.finish()
    log.commit_written()
    assert read_all(log) == [(0, b"a"), (1, b"e")]


def test_a_callback_that_fails_holds_up_no_other_log(fs: FaultyFileSystem) -> None:
    logs = managed(fs)
    one = logs.create(PARTITION, TOPIC_ID, LogConfig())
    other = logs.create(TopicPartition("orders", 1), TOPIC_ID, LogConfig())
    thread = slowed_down(one)
    for log in (one, one, other):
        append(log, batch(b"a"))

    def fail(size: int) -> None:
        raise RuntimeError("a callback failed")

    one.watch_pending(fail, lambda: None)
    with pytest.raises(RuntimeError):
        thread.take_turn()
    one.watch_pending(lambda size: None, lambda: None)
    append(other, batch(b"b"))
    thread.finish()
    assert [(log.offsets.written, log.has_pending) for log in (one, other)] == [(2, False)] * 2


def test_a_write_that_takes_long_holds_up_no_other_log(fs: FaultyFileSystem) -> None:
    logs = managed(fs)
    one = logs.create(PARTITION, TOPIC_ID, LogConfig())
    other = logs.create(TopicPartition("orders", 1), TOPIC_ID, LogConfig())
    thread = slowed_down(one)
    append(one, batch(b"a"))
    append(other, batch(b"a"))
    thread.take_turn(1)  # in another thread of the log dir
    assert [log.offsets.written for log in (one, other)] == [0, 1]
    append(one, batch(b"b"))
    thread.finish()
    assert [log.offsets.written for log in (one, other)] == [2, 1]


def test_a_write_that_fails_is_undone_and_its_offsets_are_given_again(fs: FaultyFileSystem, log: Log) -> None:
    heard: list[str] = []
    log.watch_pending(lambda size: heard.append("written"), lambda: heard.append("undone"))
    append(log, produced(7, 0, 0, b"a"))
    thread = slowed_down(log)
    append(log, produced(7, 0, 1, b"b"))
    append(log, produced(7, 0, 2, b"c"))
    append(log, produced(8, 0, 0, b"d"))
    fs.fail_at(1, FULL, "append")
    thread.finish()
    assert (heard, offsets(log), log.has_pending) == (["undone"], (1, 1, 1), False)
    assert log.producers.get(8) is None
    assert code(log, produced(7, 0, 2, b"c")) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    again = append(log, produced(7, 0, 1, b"b"))
    assert (again.first_offset, again.duplicate) == (1, False)
    thread.finish()
    assert read_all(log) == [(0, b"a"), (1, b"b")]


def test_a_batch_that_is_sent_again_while_it_waits_is_a_duplicate(log: Log) -> None:
    thread = slowed_down(log)
    append(log, produced(7, 0, 0, b"a"))
    again = append(log, produced(7, 0, 0, b"a"))
    assert (again.first_offset, again.duplicate, log.offsets.written) == (0, True, 0)
    thread.finish()
    assert read_all(log) == [(0, b"a")]


def test_a_disk_that_breaks_takes_its_log_dir_along(fs: FaultyFileSystem, log: Log) -> None:
    thread = slowed_down(log)
    append(log, batch(b"a"))
    fs.fail_at(1, BROKEN, "append")
    thread.finish()
    assert log.disk.error is not None
    assert offsets(log) == (0, 0, 0)
    assert code(log, batch(b"b")) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_marker_that_is_not_written_ends_no_transaction(fs: FaultyFileSystem, log: Log) -> None:
    append(log, produced(7, 0, 0, b"a", transactional=True))
    append(log, produced(8, 0, 0, b"b", transactional=True))
    thread = slowed_down(log)
    end_transaction(log, marker(7, 0, committed=False))
    assert log.last_stable_offset == 0
    fs.fail_at(1, FULL, "append")
    thread.finish()
    assert log.producers.open_transactions == {7: 0, 8: 1}
    assert (log.last_stable_offset, log.aborted_transactions(0, 9)) == (0, [])
    end_transaction(log, marker(7, 0, committed=False))
    assert log.aborted_transactions(0, 9) == []
    thread.finish()
    log.commit_written()
    assert (log.last_stable_offset, log.aborted_transactions(0, 9)) == (1, [(7, 0)])


def test_rolls_follow_in_order(fs: FaultyFileSystem) -> None:
    config = LogConfig(segment_bytes=200, index_interval_bytes=1)
    direct, slow = new_log("/one/orders-0", config, fs), new_log("/two/orders-0", config, fs)
    thread = slowed_down(slow)
    for number in range(20):
        for log in (direct, slow):
            append(log, produced(7, 0, number, b"%d" % number * 10))
    assert len(slow.segments) == 1
    thread.finish()
    slow.commit_written()
    for log in (direct, slow):
        log.close()
    files = dict(fs.files())
    of_one = {path.removeprefix("/one/"): data for path, data in files.items() if path.startswith("/one/")}
    of_two = {path.removeprefix("/two/"): data for path, data in files.items() if path.startswith("/two/")}
    assert len(direct.segments) > 4
    assert of_one == of_two


def test_a_roll_that_fails_is_planned_again(fs: FaultyFileSystem) -> None:
    log = new_log("/data/orders-0", LogConfig(segment_bytes=100), fs)
    append(log, batch(b"a"))
    thread = slowed_down(log)
    fs.fail_at(1, FULL, "create")
    append(log, batch(b"b"))
    thread.finish()
    assert (offsets(log), len(log.segments)) == ((1, 1, 1), 1)
    append(log, batch(b"b"))
    thread.finish()
    assert (read_all(log), len(log.segments)) == ([(0, b"a"), (1, b"b")], 2)


def test_flush_covers_only_written_batches(fs: FaultyFileSystem, log: Log) -> None:
    append(log, batch(b"a"))
    thread = slowed_down(log)
    append(log, batch(b"b"))
    log.flush()
    assert log.recovery_point == 1
    thread.finish()
    log.flush()
    assert log.recovery_point == 2


def test_truncation_drops_pending_appends(log: Log) -> None:
    append(log, batch(b"a"))
    append(log, batch(b"b"))
    thread = slowed_down(log)
    append(log, batch(b"c"))
    append(log, batch(b"d"))
    log.truncate_to(1)
    assert offsets(log) == (1, 1, 1)
    append(log, batch(b"e"))
    thread.finish()
    assert read_all(log) == [(0, b"a"), (1, b"e")]


def test_a_slow_log_dir_holds_only_so_much_in_memory(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    thread = slowed_down(log)
    size = len(batch(b"a"))
    monkeypatch.setattr(slow_writes, "MAX_PENDING_BYTES", 2 * size)
    append(log, batch(b"a"))
    append(log, batch(b"b"))
    with pytest.raises(DiskFull, match="wait to be written"):  # as which movers and followers wait for it
        append(log, batch(b"c"))
    thread.finish()
    assert append(log, batch(b"c")).first_offset == 2


def test_a_log_that_is_deleted_meanwhile_is_left_alone(fs: FaultyFileSystem) -> None:
    logs = managed(fs)
    log = logs.create(PARTITION, TOPIC_ID, LogConfig(segment_bytes=100))
    append(log, batch(b"a"))
    thread = slowed_down(log)
    append(log, batch(b"b"))
    append(log, batch(b"c"))
    logs.delete(PARTITION)
    thread.finish()
    assert (logs.offline_dirs, log.offsets.end) == ({}, 1)


def test_clean_stop_keeps_written_records(fs: FaultyFileSystem) -> None:
    logs = managed(fs)
    log = logs.create(PARTITION, TOPIC_ID, LogConfig())
    append(log, batch(b"a"))
    slowed_down(log)
    append(log, produced(7, 0, 0, b"never acknowledged"))
    logs.close()
    again, report = loaded(fs)
    assert (read_all(get(again)), report.cut_bytes, len(get(again).producers)) == ([(0, b"a")], 0, 0)


@pytest.mark.parametrize("seed", range(25))
def test_log_equals_its_files_after_any_failure(seed: int) -> None:
    """Random appends, transactions, failures, truncations and turns of the thread; at the end the process is killed."""
    chance = random.Random(seed)
    fs = FaultyFileSystem()
    logs = managed(fs)
    config = LogConfig(segment_bytes=700, index_interval_bytes=50)
    log = logs.create(PARTITION, TOPIC_ID, config)
    thread = slowed_down(log)
    sequences = dict.fromkeys(range(3), 0)
    for _ in range(120):
        choice = chance.random()
        if choice < 0.55:
            _append_something(log, chance, sequences)
        elif choice < 0.9 and thread._jobs:
            thread.take_turn()
        elif choice < 0.95:
            fs.fail_at(1, FULL, chance.choice(["append", "create", "rename"]))
        elif choice < 0.97:
            fs.heal()
            log.truncate_to(chance.randint(log.offsets.high_watermark, log.offsets.end))
        else:
            fs.heal()
        if not log.has_pending:
            log.commit_written()
        known = {id_: log.producers.get(id_) for id_ in sequences}
        sequences = {id_: state.next_sequence if state else 0 for id_, state in known.items()}
    fs.heal()
    thread.finish()
    producers, end, records = encode_snapshot(_sorted(log)), log.offsets.end, read_all(log)
    after, report = loaded(fs.crash(lose_unsynced=False), config)
    found = get(after)
    assert (found.offsets.end, read_all(found), report.damaged) == (end, records, {})
    assert _without_times(encode_snapshot(_sorted(found))) == _without_times(producers)
    assert found.producers.open_transactions == log.producers.open_transactions


def _append_next(log: Log, more: list[bytearray]) -> None:
    if more:
        append(log, more.pop(0))


def _append_something(log: Log, chance: random.Random, sequences: dict[int, int]) -> None:
    producer = chance.choice([None, 0, 1, 2])
    values = [b"x" * chance.randint(1, 60) for _ in range(chance.randint(1, 3))]
    try:
        if producer is None:
            append(log, batch(*values))
        elif producer in log.producers.open_transactions and chance.random() < 0.4:
            end_transaction(log, marker(producer, 0, committed=chance.random() < 0.5))
        else:
            transactional = producer > 0
            append(log, produced(producer, 0, sequences[producer], *values, transactional=transactional))
    except DiskFull:
        return


def _sorted(log: Log) -> list:  # type: ignore[type-arg]
    return sorted(log.producers, key=lambda producer: producer.producer_id)


def _without_times(snapshot: bytes) -> list[bytes]:
    entries = [snapshot[at : at + 46] for at in range(10, len(snapshot), 46)]
    return [entry[:26] + entry[34:] for entry in entries]
