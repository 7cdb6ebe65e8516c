"""Periodic tasks and their intervals."""

from itertools import pairwise

from barnabas.common.clock import ManualClock
from barnabas.common.types import TopicPartition
from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import LogConfig
from barnabas.log.dirs.housekeeping import PRODUCERS_AT_ONCE, SEGMENTS_AT_ONCE, PeriodicTimer
from barnabas.log.dirs.manager import LogManager
from barnabas.log.log import Log
from barnabas.records.batch import read_header
from barnabas.testing.files import FaultyFileSystem
from tests.support.builders.logs import NOW, PARTITION, TOPIC_ID, append, batch, managed, produced

HOUR = 3_600_000


def test_something_is_due_after_the_delay_and_then_once_per_interval() -> None:
    task = PeriodicTimer(100, 10)
    assert [now for now in range(320) if task.is_due(now)] == [10, 110, 210, 310]


def test_the_delay_is_never_longer_than_the_interval() -> None:
    task = PeriodicTimer(5, 1000)
    assert [now for now in range(14) if task.is_due(now)] == [5, 10]


def test_a_clock_that_is_set_back_does_not_stop_it() -> None:
    task = PeriodicTimer(100, 100)
    task.is_due(1_000_000)
    assert task.is_due(1_000_100)
    assert [now for now in range(500, 720) if task.is_due(now)] == [500, 600, 700]


def test_silent_producers_are_forgotten_after_the_time_that_is_set_now() -> None:
    clock = ManualClock(NOW)
    settings = {"producer.id.expiration.check.interval.ms": "1000", "log.initial.task.delay.ms": "0"}
    logs = managed(FaultyFileSystem(), clock=clock, settings=settings)
    log = logs.create(PARTITION, TOPIC_ID, LogConfig())
    append(log, produced(7, 0, 0))
    logs.housekeeping(NOW + HOUR)
    assert len(log.producers) == 1
    logs.use_config(BrokerConfig.load({"producer.id.expiration.ms": str(HOUR)}))
    logs.housekeeping(NOW + 2 * HOUR)
    assert len(log.producers) == 0


AT_ONCE = {
    "log.retention.check.interval.ms": "1000",
    "producer.id.expiration.check.interval.ms": "1000",
    "producer.id.expiration.ms": "1000",
    "log.initial.task.delay.ms": "0",
}
ONE_A_SEGMENT = LogConfig(segment_bytes=100, retention_ms=1000)


def with_segments(logs: LogManager, index: int, count: int) -> Log:
    log = logs.create(TopicPartition("orders", index), TOPIC_ID, ONE_A_SEGMENT)
    for _ in range(count):
        append(log, batch(b"x" * 20))
    return log


def test_retention_removes_a_few_segments_in_each_step_and_all_in_a_round() -> None:
    logs = managed(FaultyFileSystem(), settings=AT_ONCE)
    log = with_segments(logs, 0, 100)
    before = 0
    for _ in logs.housekeeping_steps(NOW + HOUR):
        assert before - len(log.segments) <= SEGMENTS_AT_ONCE or not before
        assert log.log_start_offset == log.segments[0].base_offset, "nobody is led to what is gone"
        before = len(log.segments)
    assert len(log.segments) == 1
    assert log.log_start_offset == 100


def test_logs_may_come_and_go_while_a_round_is_under_way() -> None:
    logs = managed(FaultyFileSystem(), settings=AT_ONCE)
    first, second, third = (with_segments(logs, index, 3 * SEGMENTS_AT_ONCE) for index in range(3))
    steps = logs.housekeeping_steps(NOW + HOUR)
    next(steps)
    logs.delete(first.topic_partition)
    logs.delete(second.topic_partition)
    late = with_segments(logs, 3, 3)
    segments = len(first.segments), len(second.segments)
    wanting = [log for wanted in steps for log in wanted]
    assert (len(first.segments), len(second.segments)) == segments, "what was deleted is left alone"
    assert len(third.segments) == 1
    assert len(late.segments) == 3
    assert set(wanting) == {third, late}
    logs.housekeeping(NOW + 2 * HOUR)
    assert len(late.segments) == 1, "it is a part of the next round"


def test_log_truncated_between_two_steps_keeps_later_records() -> None:
    logs = managed(FaultyFileSystem(), settings=AT_ONCE)
    log = with_segments(logs, 0, 3 * SEGMENTS_AT_ONCE)
    steps = logs.housekeeping_steps(NOW + HOUR)
    next(steps)
    log.truncate_fully_and_start_at(1000)
    append(log, batch(b"new", timestamp=NOW + HOUR), NOW + HOUR)
    for _ in steps:
        pass
    assert (log.log_start_offset, log.log_end_offset) == (1000, 1001)


def test_producers_expire_in_steps() -> None:
    logs = managed(FaultyFileSystem(), settings=AT_ONCE)
    log = logs.create(PARTITION, TOPIC_ID, LogConfig())
    header = read_header(produced(0, 0, 0))
    for number in range(5 * PRODUCERS_AT_ONCE):
        log.producers.remember(header._replace(producer_id=number), number, NOW)
    seen = [len(log.producers) for _ in logs.housekeeping_steps(NOW + HOUR)]
    assert min(seen) == 0
    assert max(before - after for before, after in pairwise(seen)) <= PRODUCERS_AT_ONCE


def test_producers_with_open_transactions_do_not_hold_up_a_round() -> None:
    logs = managed(FaultyFileSystem(), settings=AT_ONCE)
    log = logs.create(PARTITION, TOPIC_ID, LogConfig())
    header = read_header(produced(0, 0, 0, transactional=True))
    for number in range(3 * PRODUCERS_AT_ONCE):
        log.producers.remember(header._replace(producer_id=number), number, NOW)
    log.producers.remember(read_header(produced(10**6, 0, 0)), 10**6, NOW)
    steps = logs.housekeeping_steps(NOW + HOUR)
    assert sum(1 for _ in steps) < 20
    assert len(log.producers) == 3 * PRODUCERS_AT_ONCE


def test_files_are_removed_in_time_when_the_clock_was_set_back() -> None:
    fs = FaultyFileSystem()
    logs = managed(fs, settings=AT_ONCE)
    logs.create(PARTITION, TOPIC_ID, LogConfig(file_delete_delay_ms=60_000))
    logs.delete(PARTITION)
    logs.housekeeping(NOW)
    set_back = NOW - 3 * HOUR
    logs.housekeeping(set_back)
    assert any("-delete" in path for path in fs.list("/data"))
    logs.housekeeping(set_back + 60_000)
    assert not any("-delete" in path for path in fs.list("/data"))


def test_flush_ms_is_counted_from_the_last_flush_and_from_when_the_clock_was_set_back() -> None:
    fs = FaultyFileSystem()
    fs.now_ms = NOW
    logs = managed(fs)
    log = logs.create(PARTITION, TOPIC_ID, LogConfig(flush_ms=5000))
    append(log, batch(b"a"))
    assert [second for second in range(12) if logs.housekeeping(NOW + 1000 * second)] == [5, 10]
    set_back = NOW - 3 * HOUR
    assert [second for second in range(12) if logs.housekeeping(set_back + 1000 * second)] == [5, 10]
