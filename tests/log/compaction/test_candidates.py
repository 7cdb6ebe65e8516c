"""Selection of logs to compact, and the upper bound."""

from dataclasses import replace

import msgspec
import pytest

from barnabas.config.topic import LogConfig
from barnabas.log.compaction.candidates import examine
from barnabas.log.log import Log
from barnabas.testing.files import FaultyFileSystem
from tests.support.builders.compacted_logs import COMPACTED, candidate, plan_for, put
from tests.support.builders.logs import NOW, new_log


@pytest.fixture
def log() -> Log:
    return filled(COMPACTED)


def filled(config: LogConfig) -> Log:
    """Three sealed segments of one record each, a second apart, and an active one."""
    log = new_log("/orders-0", config, FaultyFileSystem())
    for number in range(4):
        if number:
            log.roll()
        put(log, (b"key", b"value"), timestamp=NOW + 1000 * number)
    return log


def test_everything_below_the_active_segment_is_dirty_at_first(log: Log) -> None:
    found = candidate(log)
    assert found is not None
    assert (found.first_dirty, found.upper, found.clean_bytes) == (0, 3, 0)
    assert found.dirty_bytes == sum(segment.size for segment in log.segments[:3])
    assert found.dirty_ratio == 1


def test_ratio_includes_earlier_compactions(log: Log) -> None:
    found = candidate(log, cleaned_upto=1)
    assert found is not None
    assert found.dirty_ratio == pytest.approx(2 / 3)
    assert found.is_worth_it
    log.update_config(replace(COMPACTED, min_cleanable_dirty_ratio=0.7))
    assert not found.is_worth_it


def test_nothing_new_is_nothing_to_do(log: Log) -> None:
    assert candidate(log, cleaned_upto=3) is None


def test_a_log_that_is_not_compacted_is_left_alone(log: Log) -> None:
    log.update_config(LogConfig())
    assert candidate(log) is None


def test_unflushed_records_wait(log: Log) -> None:
    assert examine(log, None, NOW) is None
    log.flush()
    assert examine(log, None, NOW) is not None


def test_uncommitted_records_wait() -> None:
    log = new_log("/orders-0", COMPACTED, FaultyFileSystem())
    put(log, (b"a", b"1"))
    log.roll()
    put(log, (b"a", b"2"))
    put(log, (b"a", b"3"))
    log.roll()
    log.offsets.high_watermark = 2
    found = candidate(log)
    assert found is not None
    assert found.upper == 1


def test_records_younger_than_the_least_lag_wait(log: Log) -> None:
    log.update_config(replace(COMPACTED, min_compaction_lag_ms=1500))
    assert candidate(log, now_ms=NOW) is None
    found = candidate(log, now_ms=NOW + 2600)
    assert found is not None
    assert found.upper == 2


def test_a_record_that_has_waited_for_too_long_is_reason_enough(log: Log) -> None:
    log.update_config(replace(COMPACTED, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=5000))
    early, late = candidate(log, 1, NOW + 6000), candidate(log, 1, NOW + 6001)
    assert early is not None
    assert not early.is_worth_it
    assert late is not None
    assert late.is_worth_it


def test_the_active_segment_is_rolled_before_its_records_wait_for_too_long() -> None:
    log = new_log("/orders-0", replace(COMPACTED, max_compaction_lag_ms=5000), FaultyFileSystem())
    put(log, (b"a", b"1"), timestamp=NOW)
    put(log, (b"a", b"2"), timestamp=NOW + 5001)
    assert len(log.segments) == 2


@pytest.mark.parametrize("noted", [4, 99])
def test_a_note_beyond_the_end_is_not_believed(
    log: Log, noted: int, caplog: pytest.LogCaptureFixture
) -> None:
    log.flush()
    log.truncate_to(3)
    found = candidate(log, cleaned_upto=noted)
    assert found is not None
    assert found.first_dirty == 0
    assert "compacting it from the log start" in caplog.text


def test_a_note_below_the_log_start_moves_up(log: Log) -> None:
    log.advance_log_start(2)
    found = candidate(log, cleaned_upto=1)
    assert found is not None
    assert found.first_dirty == 2


def test_a_segment_is_limited_by_bytes_index_entries_and_the_range_of_offsets(log: Log) -> None:
    plan = plan_for(log)
    assert plan is not None
    assert plan.fits(0, 2000, 1 << 31)
    assert not plan.fits(0, 2001, 1 << 31)
    assert not plan.fits(0, 2000, (1 << 31) + 1)
    tiny = msgspec.structs.replace(plan, segment_index_bytes=60)
    assert tiny.fits(0, 600, 1)
    assert not tiny.fits(0, 800, 1)
