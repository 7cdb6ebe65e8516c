"""Batches with implausible timestamps: from a client, an older version, or a folder of Kafka."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.config.topic import LogConfig
from barnabas.log.log import Log
from barnabas.log.rolling_log import MIN_SEGMENT_BYTES, SEGMENTS_BY_RECORD_TIME
from barnabas.records.batch import HEADER_SIZE, stamp, write_crc
from barnabas.testing.files import FaultyFileSystem
from tests.support.builders.logs import (
    NOW,
    PARTITION,
    TOPIC_ID,
    append,
    batch,
    get,
    loaded,
    managed,
    new_log,
    produced,
    read_all,
)

DAY = 86_400_000
SMALLEST, LARGEST = -(2**63), 2**63 - 1
EXTREMES = [SMALLEST, -DAY, -2, -1, 0, 1, NOW - 400 * DAY, NOW, NOW + 400 * DAY, LARGEST - 1, LARGEST]
timestamps = st.sampled_from(EXTREMES) | st.integers(SMALLEST, LARGEST)


def claiming(base: int, largest: int, value: bytes = b"x") -> bytearray:
    """A batch with this time in its header, independent of its record."""
    data = batch(value, timestamp=NOW)
    data[27:35] = base.to_bytes(8, "big", signed=True)
    data[35:43] = largest.to_bytes(8, "big", signed=True)
    write_crc(data, 0, len(data))
    return data


def taken(log: Log, data: bytearray, now_ms: int = NOW) -> None:
    """Append as a follower, without timestamp checks."""
    stamp(data, 0, log.log_end_offset, len(data) - 12, 0)
    log.append_as_follower(memoryview(data), now_ms)
    log.advance_high_watermark(log.log_end_offset)


def in_memory(config: LogConfig | None = None) -> Log:
    fs = FaultyFileSystem()
    fs.now_ms = NOW
    return new_log("/data/orders-0", config or LogConfig(), fs)


# -- retention ------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.tuples(timestamps, timestamps), min_size=1, max_size=8))
def test_just_written_segment_expires_only_if_its_latest_record_is_old(
    times: list[tuple[int, int]],
) -> None:
    log = in_memory(LogConfig(retention_ms=7 * DAY, segment_ms=LARGEST))
    for base, largest in times:
        taken(log, claiming(base, largest))
    latest = max(largest for _, largest in times)
    log.delete_old_segments(NOW + 1)
    assert (log.log_start_offset > 0) == (0 <= latest < NOW + 1 - 7 * DAY)
    assert log.log_end_offset == len(times)


@settings(deadline=None)
@given(st.lists(timestamps, min_size=1, max_size=8))
def test_every_segment_expires(times: list[int]) -> None:
    log = in_memory(LogConfig(retention_ms=7 * DAY))
    for largest in times:
        taken(log, claiming(0, largest))
    log.delete_old_segments(NOW + 8 * DAY)
    assert log.log_start_offset == log.log_end_offset or NOW + DAY <= max(times) <= NOW + 9 * DAY


def test_a_topic_that_allows_records_of_the_future_keeps_them_until_then() -> None:
    config = LogConfig(retention_ms=7 * DAY, message_timestamp_after_max_ms=1000 * DAY)
    log = in_memory(config)
    taken(log, claiming(NOW, NOW + 400 * DAY))
    log.delete_old_segments(NOW + 100 * DAY)
    assert log.log_start_offset == 0
    log.delete_old_segments(NOW + 408 * DAY)
    assert log.log_start_offset == 1


@pytest.mark.parametrize("timestamp", [-1, SMALLEST, 0])
def test_segments_without_usable_time_indexes_are_scanned_in_the_background(
    timestamp: int,
) -> None:
    fs = FaultyFileSystem()
    fs.now_ms = NOW
    config = LogConfig(retention_ms=7 * DAY)
    logs, _ = loaded(fs, config)
    log = logs.create(PARTITION, TOPIC_ID, config)
    for _ in range(3):
        taken(log, claiming(timestamp, timestamp))
        log.roll(NOW)
    logs.close()
    logs = managed(fs, settings={"log.initial.task.delay.ms": "0", "log.retention.check.interval.ms": "1"})
    logs.load(lambda partition, topic_id: config)
    waiting: list[Callable[[], None]] = []
    logs.use_background(waiting.append)
    log = get(logs)
    later = NOW + 8 * DAY
    logs.housekeeping(later)
    assert log.log_start_offset == 0, "the loop has not read the segments"
    for work in waiting:
        work()
    logs.housekeeping(later + 1)
    assert log.log_start_offset == 3


# -- rolls --------------------------------------------------------------------------------------------------


def test_timestamps_that_jump_make_no_file_for_each_batch() -> None:
    log = in_memory()
    for number in range(2 * SEGMENTS_BY_RECORD_TIME):
        taken(log, claiming(0, number * 8 * DAY))
    assert len(log.segments) == SEGMENTS_BY_RECORD_TIME + 1


@settings(deadline=None)
@given(st.lists(timestamps, max_size=50))
def test_cve_2026_111496_records_with_any_timestamps_are_readable(times: list[int]) -> None:
    log = in_memory(LogConfig(segment_ms=1000))
    for number, timestamp in enumerate(times):
        taken(log, claiming(timestamp, timestamp), NOW + number)
    assert [offset for offset, _ in read_all(log)] == list(range(len(times)))


def test_with_many_files_a_segment_that_is_old_by_our_clock_or_large_is_rolled_all_the_same() -> None:
    log = in_memory()
    for number in range(SEGMENTS_BY_RECORD_TIME + 10):
        taken(log, claiming(0, number * 8 * DAY))
    count = len(log.segments)
    taken(log, claiming(0, 10_000 * 8 * DAY), NOW + 8 * DAY)
    assert len(log.segments) == count + 1
    taken(log, claiming(0, 10_001 * 8 * DAY, b"x" * MIN_SEGMENT_BYTES), NOW + 8 * DAY)
    taken(log, claiming(0, 10_002 * 8 * DAY), NOW + 8 * DAY)
    assert len(log.segments) == count + 2


def test_start_does_not_roll_segments_without_timestamps() -> None:
    fs = FaultyFileSystem()
    logs, _ = loaded(fs)
    log = logs.create(PARTITION, TOPIC_ID, LogConfig())
    taken(log, claiming(-1, -1))
    logs.close()
    logs, _ = loaded(fs)
    taken(get(logs), claiming(-1, -1), NOW + 1)
    assert len(get(logs).segments) == 1


# -- searches -------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.tuples(timestamps, timestamps), min_size=1, max_size=8), timestamps)
def test_every_search_ends_with_a_distinguishable_record(times: list[tuple[int, int]], wanted: int) -> None:
    log = in_memory(LogConfig(index_interval_bytes=0, segment_bytes=4 * (HEADER_SIZE + 20)))
    for base, largest in times:
        taken(log, claiming(base, largest))
    for found in (log.offset_for_timestamp(wanted), log.max_timestamp_offset()):
        if found is not None:
            assert 0 <= found.offset < len(times)
            assert SMALLEST <= found.timestamp <= LARGEST


def test_unreadable_batch_is_found_by_its_content() -> None:
    log = in_memory()
    taken(log, batch(b"a", timestamp=NOW - DAY))
    garbage = claiming(NOW, NOW)
    garbage[22] |= 4  # marked as zstd
    write_crc(garbage, 0, len(garbage))
    taken(log, garbage)
    assert log.offset_for_timestamp(NOW - 1) == (1, NOW, 0)


@settings(deadline=None)
@given(timestamps, st.lists(timestamps, min_size=1, max_size=6))
def test_indexes_with_any_timestamps_are_the_same_after_a_start(first: int, times: list[int]) -> None:
    fs = FaultyFileSystem()
    config = LogConfig(index_interval_bytes=0, segment_bytes=4 * (HEADER_SIZE + 20))
    logs, _ = loaded(fs, config)
    log = logs.create(PARTITION, TOPIC_ID, config)
    for timestamp in (first, *times):
        taken(log, claiming(timestamp, timestamp))
    before = [segment.largest_timestamp for segment in log.segments]
    found = [log.offset_for_timestamp(timestamp) for timestamp in times]
    logs.close()
    logs, _ = loaded(fs, config)
    assert [segment.largest_timestamp for segment in get(logs).segments] == before
    assert [get(logs).offset_for_timestamp(timestamp) for timestamp in times] == found


# -- producers ------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(timestamps, min_size=1, max_size=5))
def test_producers_expire_regardless_of_record_timestamps(times: list[int]) -> None:
    log = in_memory()
    for sequence, timestamp in enumerate(times):
        data = produced(7, 0, sequence, b"x")
        data[35:43] = timestamp.to_bytes(8, "big", signed=True)
        write_crc(data, 0, len(data))
        taken(log, data)
    log.roll(NOW)  # which writes a snapshot
    log.producers.expire(NOW + DAY - 1, DAY)
    assert len(log.producers) == 1
    log.producers.expire(NOW + DAY, DAY)
    assert not len(log.producers)


def test_leader_accepts_past_timestamps_and_rejects_impossible_ones(tmp_path: Path) -> None:
    log = new_log(tmp_path / "orders-0")
    append(log, claiming(0, 0))
    for first, last in ((0, NOW + DAY), (0, LARGEST), (SMALLEST, SMALLEST), (SMALLEST, LARGEST), (-2, 0)):
        with pytest.raises(KafkaError) as refusal:
            append(log, claiming(first, last))
        assert refusal.value.code in (ErrorCode.INVALID_TIMESTAMP, ErrorCode.INVALID_RECORD)
    assert log.log_end_offset == 1
