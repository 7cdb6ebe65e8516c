"""Records by timestamp, offsets by leader epoch, and more segments than open files."""

from pathlib import Path

import pytest

from barnabas.config.topic import LogConfig
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.log import Log
from barnabas.log.segments.segment_file import OpenSegments
from barnabas.records.builder import build_batch
from barnabas.records.compression import Codec
from barnabas.records.record import Record
from tests.support.builders.logs import NOW, append, batch, content, new_log, read_all


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return new_log(tmp_path / "orders-0", LogConfig(segment_bytes=1000, index_interval_bytes=100))


def of_times(*timestamps: int, compression: Codec = Codec.NONE) -> bytearray:
    return build_batch([Record(0, NOW + t, None, b"v") for t in timestamps], compression=compression)


@pytest.mark.parametrize("codec", list(Codec))
def test_the_first_record_that_is_late_enough_is_found_inside_its_batch(log: Log, codec: Codec) -> None:
    append(log, of_times(0, 10, 20, compression=codec), epoch=1)
    append(log, of_times(15, 30, 25, compression=codec), epoch=2)
    assert log.offset_for_timestamp(NOW - 5) == (0, NOW, 1)
    assert log.offset_for_timestamp(NOW + 10) == (1, NOW + 10, 1)
    assert log.offset_for_timestamp(NOW + 11) == (2, NOW + 20, 1)
    assert log.offset_for_timestamp(NOW + 21) == (4, NOW + 30, 2)
    assert log.offset_for_timestamp(NOW + 31) is None


def test_times_are_found_across_many_segments(log: Log) -> None:
    for number in range(200):
        append(log, of_times(10 * number))
    assert len(log.segments) > 10
    for number in (0, 1, 57, 133, 199):
        assert log.offset_for_timestamp(NOW + 10 * number - 3) == (number, NOW + 10 * number, 0)


def test_late_record_hides_later_ones_no_more_than_in_kafka(log: Log) -> None:
    append(log, of_times(1000))
    for number in range(50):
        append(log, of_times(number))
    assert log.offset_for_timestamp(NOW + 500) == (0, NOW + 1000, 0)


def test_deleted_records_are_not_found_by_time(log: Log) -> None:
    append(log, of_times(0, 10, 20))
    append(log, of_times(5))
    log.advance_log_start(2)
    assert log.offset_for_timestamp(NOW) == (2, NOW + 20, 0)


def test_the_largest_timestamp_is_found_in_whichever_segment_it_is(log: Log) -> None:
    assert log.max_timestamp_offset() is None
    for number in range(30):
        append(log, of_times(number))
    append(log, of_times(3, 9000, 9000, 4))
    for number in range(30):
        append(log, of_times(number))
    assert log.max_timestamp_offset() == (31, NOW + 9000, 0)


def test_records_without_a_time_are_not_found_by_time(log: Log) -> None:
    append(log, batch(b"a", timestamp=-1))
    assert log.offset_for_timestamp(0) is None
    assert log.max_timestamp_offset() is None


def test_end_offset_of_a_leader_epoch_equals_kafkas() -> None:
    epochs = LeaderEpochs([(2, 0), (5, 10), (7, 30)])
    assert epochs.end_offset(7, 42) == (7, 42)
    assert epochs.end_offset(6, 42) == (5, 30)
    assert epochs.end_offset(5, 42) == (5, 30)
    assert epochs.end_offset(2, 42) == (2, 10)
    assert epochs.end_offset(1, 42) == (1, 0)
    assert epochs.end_offset(8, 42) == (-1, -1)
    assert epochs.end_offset(-1, 42) == (-1, -1)
    assert LeaderEpochs().end_offset(0, 42) == (-1, -1)


def test_an_epoch_without_batches_gives_way_to_the_next() -> None:
    epochs = LeaderEpochs([(1, 0)])
    epochs.assign(2, 10)
    epochs.assign(3, 10)
    epochs.assign(3, 20)
    epochs.assign(2, 30)
    assert epochs.entries == ((1, 0), (3, 10))
    assert [epochs.at(offset) for offset in (0, 9, 10, 99)] == [1, 1, 3, 3]


def test_an_epoch_that_a_batch_proves_wrong_is_forgotten() -> None:
    """A leader without writes became a follower and was killed before its file was updated."""
    epochs = LeaderEpochs([(0, 0), (1, 4)])
    epochs.assign(0, 4)
    epochs.assign(3, 5)
    assert epochs.entries == ((0, 0), (3, 5))
    assert epochs.end_offset(0, 9) == (0, 5)


def test_leader_epochs_follow_both_ends_of_the_log() -> None:
    epochs = LeaderEpochs([(1, 0), (2, 10), (3, 20)])
    epochs.truncate_start(15)
    later: tuple[tuple[int, int], ...] = epochs.entries
    assert later == ((2, 15), (3, 20))
    epochs.truncate_end(20)
    assert epochs.entries == ((2, 15),)
    assert epochs.latest == 2


def test_repeated_epoch_request_returns_changes() -> None:
    epochs = LeaderEpochs()
    at_first: tuple[tuple[int, int], ...] = epochs.entries
    assert at_first == ()
    epochs.assign(1, 0)
    then: tuple[tuple[int, int], ...] = epochs.entries
    assert then == ((1, 0),)
    epochs.assign(2, 4)
    then = epochs.entries
    assert then is epochs.entries
    assert then == ((1, 0), (2, 4))
    epochs.assign(1, 4)  # the second has left no batch
    then = epochs.entries
    assert then == ((1, 0),)
    epochs.truncate_start(3)
    then = epochs.entries
    assert then == ((1, 3),)
    epochs.clear()
    assert epochs.entries == ()


def test_only_so_many_segments_are_open_at_once(tmp_path: Path) -> None:
    few = OpenSegments(limit=4)
    log = new_log(tmp_path / "orders-0", LogConfig(segment_bytes=300), open_segments=few)
    for number in range(100):
        append(log, batch(str(number).encode()))
    assert len(log.segments) > 20
    assert len(few) <= 4
    pieces = [log.read(offset, 10, 100) for offset in range(100)]
    assert len(few) <= 4
    assert [content(piece)[-2:-1] != b"" for piece in pieces] == [True] * 100
    assert read_all(log) == [(number, str(number).encode()) for number in range(100)]
    assert append(log, batch(b"next")).first_offset == 100
