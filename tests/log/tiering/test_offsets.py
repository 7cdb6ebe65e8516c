"""Log start, local start and tiered end: one mover each, and reads between the first two."""

import pytest

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import FileSystem
from barnabas.log.log import Log
from barnabas.log.offsets import NOTHING_TIERED, Offsets
from barnabas.testing.files import FaultyFileSystem
from tests.support.builders.logs import NOW, append, batch, headers, new_log


def half_remote() -> Log:
    """Records 0 to 9 of which those below 6 are in remote segments only, and 0 and 1 are deleted."""
    fs: FileSystem = FaultyFileSystem()
    log = new_log("/data/orders-0", fs=fs)
    for number in range(10):
        append(log, batch(b"%d" % number, timestamp=NOW + number))
        if number == 5:
            log.roll()
    log.offsets.advance_tiered_end(8)
    log.offsets.advance_local_start(6)
    log.advance_log_start(2)
    return log


def test_without_a_remote_part_log_start_and_local_start_move_together() -> None:
    offsets = Offsets(3, 10, 3)
    assert (offsets.start, offsets.local_start, offsets.tiered_end) == (3, 3, NOTHING_TIERED)
    assert offsets.advance_start(5)
    assert (offsets.start, offsets.local_start) == (5, 5)


def test_deleting_records_of_the_remote_part_leaves_the_local_start() -> None:
    log = half_remote()
    assert (log.log_start_offset, log.local_start_offset, log.remote_part) == (2, 6, (2, 6))
    log.advance_log_start(7)
    assert (log.log_start_offset, log.local_start_offset, log.remote_part) == (7, 7, None)


def test_only_copied_segments_may_leave_the_disk() -> None:
    offsets = Offsets(0, 10, 0)
    offsets.advance_tiered_end(4)
    with pytest.raises(AssertionError, match="local start 5 above the tiered end 4"):
        offsets.advance_local_start(5)


def test_the_tiered_end_falls_with_a_truncation_and_otherwise_only_rises() -> None:
    offsets = Offsets(0, 10, 0)
    assert offsets.advance_tiered_end(8)
    assert not offsets.advance_tiered_end(7)
    offsets.begin_truncation(5)
    assert offsets.tiered_end == 5


def test_the_end_of_tiering_makes_the_log_start_on_this_disk() -> None:
    offsets = half_remote().offsets
    offsets.end_tiering()
    assert (offsets.start, offsets.local_start, offsets.tiered_end) == (6, 6, NOTHING_TIERED)


@pytest.mark.parametrize("offset", [2, 5])
def test_read_between_log_start_and_local_start_reports_remote_data(offset: int) -> None:
    log = half_remote()
    for read in (
        lambda: log.read(offset, 1000, 10),
        lambda: log.read_committed(offset, 1000),
        lambda: log.aborted_transactions(offset, 10),
    ):
        with pytest.raises(KafkaError, match=f"offset {offset} of .* is in a remote segment") as caught:
            read()
        assert caught.value.code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE


@pytest.mark.parametrize("offset", [1, 11])
def test_only_unheld_offsets_are_out_of_range(offset: int) -> None:
    with pytest.raises(KafkaError) as caught:
        half_remote().read(offset, 1000, 10)
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_searches_by_time_cover_the_local_part_and_report_the_remote_part() -> None:
    log = half_remote()
    found, latest = log.offset_for_timestamp(NOW), log.max_timestamp_offset()
    assert found is not None
    assert found.offset == 6
    assert latest is not None
    assert latest.offset == 9
    assert log.remote_part == (2, 6)
    assert [header.base_offset for header in headers(log.read(6, 1 << 20, 10))] == [6, 7, 8, 9]
