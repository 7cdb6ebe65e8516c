"""Records removed and retained by a compaction, rule by rule."""

from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.log.compaction.candidates import CompactionLimits
from barnabas.log.compaction.cleaner import CompactionFailed, delete_horizon
from barnabas.log.compaction.keys import BYTES_PER_KEY
from barnabas.log.compaction.swap import find_sources
from barnabas.log.log import Log
from barnabas.records.compression import Codec
from barnabas.records.record import Record
from barnabas.testing.files import FaultyFileSystem
from tests.support.builders.compacted_logs import (
    COMPACTED,
    batches,
    clean,
    committed,
    final_values,
    keyed,
    plan_for,
    put,
    records,
    run,
)
from tests.support.builders.logs import NOW, append, end_transaction, marker, new_log


@pytest.fixture
def log() -> Log:
    return new_log("/orders-0", COMPACTED, FaultyFileSystem())


def pairs(found: list[Record]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in found]


@pytest.mark.parametrize("codec", list(Codec))
def test_the_last_record_of_each_key_stays_where_it_is(log: Log, codec: Codec) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"), compression=codec)
    put(log, (b"a", b"2"), (b"x" * 50, b"1"), compression=codec)
    put(log, (b"c", b"2"), (b"x" * 50, b"2"), compression=codec)
    log.roll()
    assert clean(log)
    assert pairs(records(log)) == [
        (1, b"b", b"1"),
        (3, b"a", b"2"),
        (5, b"c", b"2"),
        (6, b"x" * 50, b"2"),
    ]


def test_batches_keep_their_offsets_and_lose_their_records(log: Log) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    put(log, (b"a", b"2"), (b"c", b"2"))
    log.roll()
    clean(log)
    first, second = [read.header for read in batches(log)]
    assert (first.base_offset, first.last_offset, first.record_count) == (0, 2, 1)
    assert (second.base_offset, second.last_offset, second.record_count) == (3, 4, 2)


def test_timestamps_and_the_largest_of_a_batch_are_right_afterwards(log: Log) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"), timestamp=NOW)
    put(log, (b"c", b"2"), timestamp=NOW + 10)
    log.roll()
    clean(log)
    first = next(iter(batches(log)))
    assert [record.timestamp for record in first.records] == [NOW, NOW + 1]
    assert first.header.max_timestamp == NOW + 1
    assert log.offset_for_timestamp(NOW + 2) == (3, NOW + 10, 0)


def test_the_active_segment_is_not_touched(log: Log) -> None:
    put(log, (b"a", b"1"))
    log.roll()
    put(log, (b"a", b"2"))
    put(log, (b"a", b"3"))
    assert clean(log)
    assert [value for _, _, value in pairs(records(log))] == [b"1", b"2", b"3"]
    log.roll()
    clean(log)
    assert [value for _, _, value in pairs(records(log))] == [b"3"]


def test_a_clean_part_is_only_compared_with_newer_keys(log: Log) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"c", b"1"))
    log.roll()
    first = clean(log)
    assert first is not None
    put(log, (b"b", b"2"))
    put(log, (b"d", b"1"))
    log.roll()
    second = clean(log, first.cleaned_upto)
    assert second is not None
    assert pairs(records(log)) == [(0, b"a", b"1"), (2, b"c", b"1"), (3, b"b", b"2"), (4, b"d", b"1")]


def test_small_segments_become_one(log: Log) -> None:
    for number in range(6):
        put(log, (b"key-%d" % number, b"value"))
        log.roll()
    clean(log)
    assert [segment.base_offset for segment in log.segments] == [0, 6]
    assert log.size_bytes == sum(segment.size for segment in log.segments)
    assert len(records(log)) == 6


def test_segments_of_which_little_stays_become_one_with_the_next(log: Log) -> None:
    for number in range(100):
        put(log, (b"key", b"value"), (b"key-%d" % (number % 7), b"v" * 40))
    assert len(log.segments) > 5
    clean(log)
    assert len(log.segments) == 2


def test_result_segments_stay_below_segment_bytes(log: Log) -> None:
    for number in range(60):
        put(log, (b"key-%d" % number, b"v" * 40))
        if number % 4 == 3:
            log.roll()
    clean(log)
    assert len(log.segments) > 2
    assert all(segment.size <= COMPACTED.segment_bytes for segment in log.segments)
    assert len(records(log)) == 60


def test_a_segment_in_which_all_stays_is_not_replaced(log: Log) -> None:
    put(log, (b"a", b"1"), (b"b", b"2"))
    log.roll()
    segment = log.segments[0]
    assert clean(log)
    assert log.segments[0] is segment


def test_a_topic_may_be_compacted_and_lose_its_old_segments_too(log: Log) -> None:
    both = frozenset({"compact", "delete"})
    log.update_config(replace(COMPACTED, cleanup_policy=both, retention_ms=5000, segment_bytes=400))
    for number in range(12):
        put(log, (b"old", b"%d" % number), (b"once-%d" % number, b"x" * 40), timestamp=NOW + 1000 * number)
    result = clean(log, now_ms=NOW + 12_000)
    assert result is not None
    kept = {record.key for record in records(log)}
    assert b"once-0" in kept
    removed = log.delete_old_segments(NOW + 12_000)
    assert removed
    assert b"once-0" not in {record.key for record in records(log)}
    put(log, (b"old", b"new"), timestamp=NOW + 12_000)
    log.roll()
    assert clean(log, result.cleaned_upto, NOW + 12_000)
    assert final_values(records(log))[b"old"] == b"new"


def test_keyless_records_of_a_topic_that_was_not_compacted_before_are_removed(log: Log) -> None:
    data = keyed((None, b"no key"), (b"a", b"1"))
    log.append_as_follower(memoryview(data))
    log.advance_high_watermark(2)
    log.roll()
    clean(log)
    assert pairs(records(log)) == [(1, b"a", b"1")]


# -- tombstones -------------------------------------------------------------------------------------


def test_a_tombstone_stays_for_delete_retention_ms_after_it_was_seen_first(log: Log) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", None), (b"b", b"1"))
    put(log, (b"end", b""))
    log.roll()
    first = clean(log, now_ms=NOW + 5)
    assert first is not None
    assert (1, b"a", None) in pairs(records(log))
    header = next(read.header for read in batches(log) if read.header.base_offset == 1)
    assert delete_horizon(header) == NOW + 5 + COMPACTED.delete_retention_ms

    upto = again(log, first.cleaned_upto, NOW + 5 + COMPACTED.delete_retention_ms - 1)
    assert (1, b"a", None) in pairs(records(log))
    again(log, upto, NOW + 5 + COMPACTED.delete_retention_ms)
    assert (1, b"a", None) not in pairs(records(log))
    assert (2, b"b", b"1") in pairs(records(log))


def test_timestamps_stay_when_the_delete_horizon_takes_the_base_timestamps_place(log: Log) -> None:
    put(log, (b"a", None), (b"b", b"1"), timestamp=NOW - 77)
    log.roll()
    clean(log, now_ms=NOW)
    assert [(record.timestamp, record.value) for record in records(log)] == [
        (NOW - 77, None),
        (NOW - 76, b"1"),
    ]
    assert next(iter(batches(log))).header.max_timestamp == NOW - 76


def again(log: Log, cleaned_upto: int, now_ms: int) -> int:
    """Add something, so that there is something to do, and compact."""
    put(log, (b"more-%d" % log.log_end_offset, b""))
    log.roll()
    result = clean(log, cleaned_upto, now_ms)
    assert result is not None
    return result.cleaned_upto


# -- producers and transactions ---------------------------------------------------------------------


def test_the_last_batch_of_a_producer_stays_as_a_header(log: Log) -> None:
    put(log, (b"a", b"1"), producer_id=7, producer_epoch=0, base_sequence=0)
    put(log, (b"a", b"2"), producer_id=7, producer_epoch=0, base_sequence=1)
    put(log, (b"a", b"3"))
    put(log, (b"end", b""))
    log.roll()
    clean(log)
    kept = [(read.header.base_offset, len(read.records)) for read in batches(log)]
    assert kept == [(1, 0), (2, 1), (3, 1)]
    header = next(iter(batches(log))).header
    assert (header.producer_id, header.base_sequence, header.compression) == (7, 1, 0)
    again = append(log, keyed((b"a", b"2"), producer_id=7, producer_epoch=0, base_sequence=1))
    assert again.duplicate


def test_the_last_batch_below_the_upper_bound_stays_as_a_header(log: Log) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", None))
    log.roll()
    upto = again(log, 0, NOW)
    put(log, (b"a", b"2"))
    log.roll()
    put(log, (b"more-2", b""))
    put(log, (b"a", b"3"))
    log.roll()
    clean(log, upto, NOW + 5000)
    assert log.log_end_offset == 6
    assert pairs(records(log)) == [(4, b"more-2", b""), (5, b"a", b"3")]


def transaction(
    log: Log, producer_id: int, *found: tuple[bytes, bytes], committed: bool, sequence: int = 0
) -> None:
    put(log, *found, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True)
    end_transaction(log, marker(producer_id, 0, committed=committed))


def test_aborted_records_go_and_do_not_push_out_committed_ones(log: Log) -> None:
    put(log, (b"a", b"committed"))
    transaction(log, 7, (b"a", b"aborted"), committed=False)
    put(log, (b"b", b"1"))
    log.roll()
    clean(log)
    assert final_values(records(log)) == {b"a": b"committed", b"b": b"1"}
    assert final_values(committed(log)) == {b"a": b"committed", b"b": b"1"}


def test_abort_marker_is_removed_after_its_records_and_a_delay(log: Log) -> None:
    transaction(log, 7, (b"a", b"aborted"), committed=False)
    transaction(log, 7, (b"b", b"committed"), committed=True, sequence=1)
    put(log, (b"c", b"1"))
    log.roll()
    first = clean(log)
    assert first is not None
    assert log.segments[
        0
    ].aborted  # the marker stays this time, because a batch was seen, and its entry with it
    upto = again(log, first.cleaned_upto, NOW)
    assert not log.segments[0].aborted
    assert controls(log) == [1, 3]
    upto = again(log, upto, NOW + COMPACTED.delete_retention_ms)
    assert controls(log) == [3]


def test_a_commit_marker_stays_while_a_record_of_its_transaction_does(log: Log) -> None:
    transaction(log, 7, (b"a", b"1"), committed=True)
    transaction(log, 7, (b"b", b"1"), committed=True, sequence=1)
    put(log, (b"a", b"2"))
    log.roll()
    first = clean(log)
    assert first is not None
    upto = again(log, first.cleaned_upto, NOW)
    again(log, upto, NOW + COMPACTED.delete_retention_ms)
    assert controls(log) == [3]
    assert final_values(committed(log))[b"b"] == b"1"


def test_the_marker_that_holds_the_epoch_of_a_producer_stays(log: Log) -> None:
    put(log, (b"a", b"1"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    end_transaction(log, marker(7, 1, committed=False))  # the epoch is raised, as when a producer is fenced
    put(log, (b"c", b"1"))
    log.roll()
    first = clean(log)
    assert first is not None
    upto = again(log, first.cleaned_upto, NOW)
    again(log, upto, NOW + COMPACTED.delete_retention_ms)
    assert controls(log) == [1]


def test_nothing_is_compacted_above_an_open_transaction(log: Log) -> None:
    put(log, (b"a", b"1"))
    log.roll()
    put(log, (b"a", b"open"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    log.roll()
    put(log, (b"a", b"2"))
    log.roll()
    result = clean(log)
    assert result is not None
    assert result.cleaned_upto == 1
    assert len(records(log)) == 3


def test_an_abort_that_is_written_into_the_active_segment_is_known(log: Log) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", b"aborted"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    log.roll()
    end_transaction(log, marker(7, 0, committed=False))
    clean(log)
    assert final_values(records(log)) == {b"a": b"1"}
    assert final_values(committed(log)) == {b"a": b"1"}


def controls(log: Log) -> list[int]:
    return [read.header.base_offset for read in batches(log) if read.header.is_control]


# -- bounds and trouble -----------------------------------------------------------------------------


def test_compaction_with_too_little_memory_covers_a_part(log: Log) -> None:
    for number in range(30):
        put(log, (b"key-%d" % (number % 10), b"%d" % number))
    log.roll()
    little = CompactionLimits(4 * BYTES_PER_KEY, float("inf"))
    upto, rounds = 0, 0
    while (result := clean(log, upto, effort=little)) is not None:
        assert result.cleaned_upto > upto
        upto, rounds = result.cleaned_upto, rounds + 1
    assert rounds > 3
    assert final_values(records(log)) == {b"key-%d" % (n % 10): b"%d" % n for n in range(20, 30)}
    assert len(records(log)) == 10


def test_a_damaged_batch_ends_the_compaction_and_changes_nothing(tmp_path: Path) -> None:
    log = new_log(tmp_path / "orders-0", COMPACTED)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    log.roll()
    plan = plan_for(log)
    assert plan is not None
    path = next((tmp_path / "orders-0").glob("*0.log"))
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(CompactionFailed, match="wrong checksum"):
        run(log, plan)
    assert path.read_bytes() == damaged
    assert not list(path.parent.glob("*.cleaned"))


def test_a_full_disk_ends_the_compaction_and_changes_nothing() -> None:
    fs = FaultyFileSystem()
    log = new_log("/orders-0", COMPACTED, fs)
    for number in range(40):
        put(log, (b"key-%d" % (number % 15), b"value"))
    plan = plan_for(log)
    assert plan is not None
    before = list(fs.files())
    for space in range(0, 700, 41):
        fs.space = space
        with pytest.raises(OSError, match="space"):
            run(log, plan)
        assert list(fs.files()) == before


def test_a_plan_is_void_once_a_segment_was_removed_or_cut(log: Log) -> None:
    for number in range(3):
        put(log, (b"a", b"%d" % number))
        log.roll()
    plan = plan_for(log)
    assert plan is not None
    assert find_sources(log, plan.sources)
    log.advance_log_start(1)
    log.delete_old_segments(NOW)
    assert find_sources(log, plan.sources) is None
    assert find_sources(log, plan.sources[1:])
    log.truncate_to(2)
    assert find_sources(log, plan.sources[1:]) is None


def test_a_slice_of_a_replaced_segment_can_still_be_sent(tmp_path: Path) -> None:
    log = new_log(tmp_path / "orders-0", COMPACTED)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    log.roll()
    piece = log.read(0, 1 << 20, 2)
    assert not isinstance(piece, bytes)
    before = piece.read()
    clean(log)
    for _, path in log.garbage:
        Path(path).unlink()
    assert piece.read() == before


def test_a_flush_that_was_under_way_during_a_swap_counts(log: Log) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    log.roll()
    plan = plan_for(log)
    assert plan is not None
    put(log, (b"a", b"3"))
    job = log.prepare_flush()
    run(log, plan)
    job.run()
    log.complete_flush(job)
    assert log.recovery_point == log.log_end_offset
