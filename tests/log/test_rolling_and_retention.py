"""Rolling of full segments, and retention of old ones."""

from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import FileSlice
from barnabas.config.topic import LogConfig
from barnabas.log.log import Log
from barnabas.log.segments.segment_file import MAX_RELATIVE_OFFSET
from barnabas.records.batch import stamp
from tests.support.builders.logs import NOW, append, batch, content, new_log, produced, read_all

SIZE = len(batch(b"x" * 10))


def log_with(tmp_path: Path, **settings: object) -> Log:
    return new_log(tmp_path / "orders-0", replace(LogConfig(), **settings))  # type: ignore[arg-type]


def fill(log: Log, count: int, timestamp: int = NOW) -> None:
    for _ in range(count):
        append(log, batch(b"x" * 10, timestamp=timestamp))


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


# -- rolling ------------------------------------------------------------------------------------------


def test_a_segment_is_rolled_before_it_exceeds_segment_bytes(tmp_path: Path) -> None:
    log = log_with(tmp_path, segment_bytes=3 * SIZE)
    fill(log, 7)
    assert bases(log) == [0, 3, 6]
    assert [segment.size for segment in log.segments] == [3 * SIZE, 3 * SIZE, SIZE]


def test_segment_ms_is_measured_by_the_records_own_time(tmp_path: Path) -> None:
    log = log_with(tmp_path, segment_ms=1000)
    append(log, batch(b"a", timestamp=NOW - 100_000), now_ms=NOW)
    append(log, batch(b"b", timestamp=NOW - 99_000), now_ms=NOW + 500_000)
    assert bases(log) == [0]
    append(log, batch(b"c", timestamp=NOW - 98_999), now_ms=NOW)
    assert bases(log) == [0, 2]


def test_segment_ms_is_measured_by_the_clock_when_records_have_no_time(tmp_path: Path) -> None:
    log = log_with(tmp_path, segment_ms=1000)
    append(log, batch(b"a", timestamp=-1), now_ms=NOW)
    append(log, batch(b"b", timestamp=-1), now_ms=NOW + 1000)
    assert bases(log) == [0]
    append(log, batch(b"c", timestamp=-1), now_ms=NOW + 1001)
    assert bases(log) == [0, 2]


def test_a_full_index_rolls_the_segment(tmp_path: Path) -> None:
    log = log_with(tmp_path, index_interval_bytes=0, segment_index_bytes=8 * 4)
    for number in range(8):
        append(log, batch(b"x", timestamp=NOW + number))
    # Two entries fit into the time index, whose last place is kept for the end; the first batch has none.
    assert bases(log)[:2] == [0, 2]


def test_offsets_that_do_not_fit_into_an_index_roll_the_segment(tmp_path: Path) -> None:
    log = log_with(tmp_path)
    append(log, batch(b"a"))
    far = batch(b"b")
    stamp(far, 0, MAX_RELATIVE_OFFSET + 1, len(far) - 12, 0)
    log.append_as_follower(memoryview(far), NOW)
    assert bases(log) == [0, 1]
    assert [offset for offset, _ in read_all(log)] == [0, MAX_RELATIVE_OFFSET + 1]


def test_rolling_leaves_indexes_and_a_producer_snapshot_and_asks_for_a_flush(tmp_path: Path) -> None:
    log = log_with(tmp_path)
    wanted: list[Log] = []
    log.connect(on_flush_wanted=lambda: wanted.append(log))
    append(log, produced(7, 0, 0, b"a"))
    log.roll(NOW)
    names = sorted(path.name for path in (tmp_path / "orders-0").iterdir())
    assert names == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000001.log",
        "00000000000000000001.snapshot",
        "partition.metadata",
    ]
    assert wanted == [log]


def test_an_empty_segment_is_not_rolled(tmp_path: Path) -> None:
    log = log_with(tmp_path)
    log.roll(NOW)
    assert bases(log) == [0]


# -- retention ----------------------------------------------------------------------------------------


def test_segments_older_than_retention_ms_are_deleted(tmp_path: Path) -> None:
    log = log_with(tmp_path, segment_bytes=2 * SIZE, retention_ms=1000)
    fill(log, 4, timestamp=NOW - 2000)
    fill(log, 2, timestamp=NOW - 1000)
    fill(log, 2, timestamp=NOW)
    removed = log.delete_old_segments(NOW)
    assert [segment.base_offset for segment in removed] == [0, 2]
    assert log.log_start_offset == 4
    assert bases(log) == [4, 6]
    assert log.size_bytes == 4 * SIZE
    with pytest.raises(KafkaError) as refusal:
        log.read(3, 100, 8)
    assert refusal.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_young_segment_protects_older_ones_behind_it(tmp_path: Path) -> None:
    log = log_with(tmp_path, segment_bytes=2 * SIZE, retention_ms=1000)
    fill(log, 2, timestamp=NOW)
    fill(log, 4, timestamp=NOW - 5000)
    assert not log.delete_old_segments(NOW)


def test_the_active_segment_is_rolled_when_it_has_expired_too(tmp_path: Path) -> None:
    log = log_with(tmp_path, retention_ms=1000)
    fill(log, 3, timestamp=NOW - 2000)
    log.delete_old_segments(NOW)
    assert (log.log_start_offset, log.log_end_offset, bases(log)) == (3, 3, [3])
    assert append(log, batch(b"next")).first_offset == 3


def test_an_empty_log_has_nothing_to_delete(tmp_path: Path) -> None:
    log = log_with(tmp_path, retention_ms=0, retention_bytes=0)
    assert not log.delete_old_segments(NOW + 10**12)


def test_the_size_is_brought_down_to_retention_bytes_but_not_below(tmp_path: Path) -> None:
    log = log_with(tmp_path, segment_bytes=2 * SIZE, retention_bytes=5 * SIZE, retention_ms=-1)
    fill(log, 10)
    log.delete_old_segments(NOW)
    assert log.size_bytes == 6 * SIZE
    assert log.log_start_offset == 4


def test_uncommitted_records_are_not_deleted(tmp_path: Path) -> None:
    log = log_with(tmp_path, segment_bytes=2 * SIZE, retention_ms=1000)
    for _ in range(6):
        log.append_as_leader(memoryview(batch(b"x" * 10, timestamp=NOW - 5000)), 0, NOW)
    log.advance_high_watermark(3)
    assert [segment.base_offset for segment in log.delete_old_segments(NOW)] == [0]


def test_a_topic_that_is_only_compacted_keeps_old_segments(tmp_path: Path) -> None:
    log = log_with(tmp_path, segment_bytes=2 * SIZE, retention_ms=0, cleanup_policy=frozenset({"compact"}))
    fill(log, 6, timestamp=NOW - 5000)
    assert not log.delete_old_segments(NOW)


def test_records_are_deleted_up_to_an_offset(tmp_path: Path) -> None:
    log = log_with(tmp_path, segment_bytes=2 * SIZE, retention_ms=-1)
    fill(log, 6)
    log.advance_log_start(3)
    assert [offset for offset, _ in read_all(log)] == [3, 4, 5]
    assert [segment.base_offset for segment in log.delete_old_segments(NOW)] == [0]
    log.advance_log_start(1)
    assert log.log_start_offset == 3
    with pytest.raises(KafkaError) as refusal:
        log.advance_log_start(7)
    assert refusal.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_slice_outlives_its_segment(tmp_path: Path) -> None:
    log = log_with(tmp_path, segment_bytes=2 * SIZE, retention_ms=1000)
    fill(log, 4, timestamp=NOW - 5000)
    piece = log.read(0, 1000, 4)
    assert isinstance(piece, FileSlice)
    before = content(piece)
    log.delete_old_segments(NOW)
    for _, path in log.garbage:
        Path(path).unlink()
    assert content(piece) == before


# -- truncation ---------------------------------------------------------------------------------------


def test_a_log_is_cut_at_the_start_of_the_batch_that_holds_the_offset(tmp_path: Path) -> None:
    log = log_with(tmp_path, segment_bytes=500)
    for number in range(20):
        append(log, batch(f"{number}a".encode(), f"{number}b".encode()), epoch=number)
    log.flush()
    log.truncate_to(13)
    assert (log.log_end_offset, log.high_watermark, log.recovery_point) == (12, 12, 12)
    assert log.epochs.entries[-1] == (5, 10)
    assert log.generation == 1
    assert append(log, batch(b"new"), epoch=30).first_offset == 12
    assert [offset for offset, _ in read_all(log)] == list(range(13))


def test_an_epoch_without_batches_is_cut_at_the_log_end(tmp_path: Path) -> None:
    log = log_with(tmp_path)
    append(log, batch(b"a"), epoch=3)
    append(log, batch(b"b"), epoch=5)
    log.advance_log_start(2)
    assert list(log.epochs.entries) == [(5, 2)]
    log.truncate_to(2)
    assert (log.log_end_offset, list(log.epochs.entries), log.epochs.latest) == (2, [], -1)


def test_a_flush_that_was_overtaken_by_a_truncation_does_not_count(tmp_path: Path) -> None:
    log = log_with(tmp_path)
    fill(log, 4)
    job = log.prepare_flush()
    log.truncate_to(2)
    fill(log, 2)
    job.run()
    log.complete_flush(job)
    assert log.recovery_point == 0


def test_a_log_starts_over_at_an_offset(tmp_path: Path) -> None:
    log = log_with(tmp_path, segment_bytes=2 * SIZE)
    fill(log, 6)
    log.truncate_fully_and_start_at(100)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (100, 100, 100)
    assert append(log, batch(b"a")).first_offset == 100
    assert sorted(path.name for path in (tmp_path / "orders-0").glob("*.log")) == ["00000000000000000100.log"]


# -- flushing -----------------------------------------------------------------------------------------


def test_the_recovery_point_follows_completed_flushes_only(tmp_path: Path) -> None:
    log = log_with(tmp_path, segment_bytes=2 * SIZE)
    fill(log, 5)
    job = log.prepare_flush()
    fill(log, 1)
    assert log.flushed_offset == 0
    job.run()
    log.complete_flush(job)
    assert log.flushed_offset == 5
    assert len(job.files) == 3


def test_flush_messages_and_flush_ms_ask_for_a_flush(tmp_path: Path) -> None:
    log = log_with(tmp_path, flush_messages=3, flush_ms=1000)
    wanted: list[Log] = []
    log.connect(on_flush_wanted=lambda: wanted.append(log))
    log.count_flush_ms_from(NOW)
    fill(log, 2)
    assert not wanted
    assert not log.flush_is_due(NOW + 999)
    assert log.flush_is_due(NOW + 1000)
    fill(log, 2)
    assert wanted
    assert log.flush_is_due(NOW)
    log.flush()
    assert not log.flush_is_due(NOW + 5000)
