"""Segments selected for copying."""

from dataclasses import replace

import pytest
from msgspec.structs import astuple

from barnabas.common.files import FileSystem
from barnabas.log.log import Log
from barnabas.log.recovery.snapshots import decode_snapshot
from barnabas.log.segments.aborted_index import AbortedIndex
from barnabas.log.segments.indexes import OffsetIndex, TimeIndex
from barnabas.log.tiering.copying import SealedSegment
from barnabas.records.batch import iterate_headers
from barnabas.testing.files import FaultyFileSystem
from tests.support.builders.logs import NOW, append, batch, end_transaction, marker, new_log, produced
from tests.support.builders.tiered_logs import DAY_MS, LATER, TIERED, TieredScene


def next_of(log: Log) -> SealedSegment:
    chosen = log.next_to_copy(NOW)
    assert chosen is not None
    return chosen.read()


def offsets_in(segment: SealedSegment) -> list[int]:
    return [header.base_offset for _, header in iterate_headers(segment.data.read())]


def test_sealed_segments_are_given_one_after_the_other() -> None:
    log = TieredScene().log
    first = next_of(log)
    assert (first.base, first.end, offsets_in(first)) == (0, 6, [0, 1, 2, 3, 4, 5])
    assert (first.largest_timestamp, first.epochs) == (NOW + 5, ((1, 0),))
    assert first.open_transactions == ()
    log.note_tiered(first.end)
    second = next_of(log)
    assert (second.base, second.end, second.epochs) == (6, 12, ((1, 0), (2, 6)))
    log.note_tiered(second.end)
    assert log.next_to_copy(NOW) is None  # the rest is not sealed


def test_the_producers_are_those_at_the_end_of_the_segment_even_if_the_snapshot_is_lost() -> None:
    scene = TieredScene()
    first = next_of(scene.log)
    assert [producer.next_sequence for producer in decode_snapshot(first.producers, NOW)] == [6]
    scene.fs.remove(scene.log.snapshots.path(6))
    again = next_of(scene.log)
    assert [producer.next_sequence for producer in decode_snapshot(again.producers, NOW)] == [6]


def test_a_segment_is_cut_where_an_earlier_leader_had_its_boundary() -> None:
    log = TieredScene().log
    complete = next_of(log)
    log.note_tiered(2)
    part = next_of(log)
    assert (part.base, part.end, offsets_in(part)) == (2, 6, [2, 3, 4, 5])
    assert complete.data.read().endswith(part.data.read())
    offsets = OffsetIndex.from_bytes(part.offset_index, part.data.length)
    times = TimeIndex.from_bytes(part.time_index)
    assert (times.timestamps[-1], times.offsets[-1]) == (NOW + 5, 3)
    at = dict(iterate_headers(part.data.read()))
    assert all(
        at[place].last_offset == 2 + offset
        for offset, place in zip(offsets.offsets, offsets.positions, strict=True)
    )


def test_the_index_of_a_part_leads_to_its_batches() -> None:
    log = new_log("/data/orders-0", replace(TIERED, segment_bytes=64_000), fs=FaultyFileSystem())
    while len(log.segments) == 1:
        append(log, batch(b"x" * 900, timestamp=NOW + log.log_end_offset))
    log.flush()
    log.note_tiered(10)
    part = next_of(log)
    at = {position: header.last_offset for position, header in iterate_headers(part.data.read())}
    index = OffsetIndex.from_bytes(part.offset_index, part.data.length)
    assert len(index) > 5
    for offset, position in zip(index.offsets, index.positions, strict=True):
        assert at[position] == 10 + offset


def test_nothing_is_given_that_is_not_flushed_or_not_committed() -> None:
    scene = TieredScene()
    log = scene.log
    log.lower_recovery_point(5)
    assert log.next_to_copy(NOW) is None
    log.flush()
    assert log.next_to_copy(NOW) is not None


def test_segments_sealed_and_unflushed_before_a_restart_are_flushed_for_copying() -> None:
    """Without further appends no roll requests the flush. Found by the simulator (seed 20)."""
    scene = TieredScene()
    scene.logs.housekeeping(NOW)
    scene.log.lower_recovery_point(0)
    assert scene.log not in scene.logs.housekeeping(NOW)
    assert scene.log.next_to_copy(NOW) is None
    assert scene.log in scene.logs.housekeeping(NOW)


def test_expired_segments_are_not_copied() -> None:
    scene = TieredScene(replace(TIERED, retention_ms=DAY_MS))
    assert scene.log.next_to_copy(LATER) is None


@pytest.mark.parametrize(
    ("lag", "is_copied_early", "is_copied_late"),
    [
        ({}, True, True),
        (
            {"remote_copy_lag_ms": DAY_MS},
            False,
            True,
        ),  # or by size: -1 is local.retention.bytes, which is unlimited
        ({"remote_copy_lag_ms": DAY_MS, "remote_copy_lag_bytes": 0}, True, True),
        ({"remote_copy_lag_ms": DAY_MS, "remote_copy_lag_bytes": 600}, True, True),
        ({"remote_copy_lag_ms": 3 * DAY_MS, "remote_copy_lag_bytes": 1 << 20}, False, False),
        ({"remote_copy_lag_ms": -1}, False, True),  # local.retention.ms
        ({"remote_copy_lag_ms": -1, "local_retention_ms": -1}, False, False),
    ],
)
def test_a_segment_is_copied_once_it_is_beyond_the_copy_lag(
    lag: dict[str, int], is_copied_early: bool, is_copied_late: bool
) -> None:
    log = TieredScene(replace(TIERED, **lag)).log  # type: ignore[arg-type]  # all of them are numbers
    assert (log.next_to_copy(NOW + 100) is not None) == is_copied_early
    assert (log.next_to_copy(LATER) is not None) == is_copied_late


def with_transactions() -> Log:
    """Producer 1 commits over the boundary at 4, producer 2 aborts over it, producer 3 aborted before it."""
    fs: FileSystem = FaultyFileSystem()
    log = new_log("/data/orders-0", replace(TIERED, segment_bytes=1 << 20), fs=fs)
    append(log, produced(3, 0, 0, b"0", transactional=True))
    end_transaction(log, marker(3, 0, committed=False))
    append(log, produced(1, 0, 0, b"2", transactional=True))
    append(log, produced(2, 0, 0, b"3", transactional=True))
    log.roll()
    append(log, produced(1, 0, 1, b"4", transactional=True))
    end_transaction(log, marker(1, 0, committed=True))
    return log


def test_nothing_is_given_while_a_transaction_is_open() -> None:
    log = with_transactions()
    log.flush()
    assert log.next_to_copy(NOW) is None


def test_transactions_that_touch_the_segment_are_given_with_their_outcome() -> None:
    log = with_transactions()
    end_transaction(log, marker(2, 0, committed=False))
    log.flush()
    segment = next_of(log)
    assert (segment.base, segment.end) == (0, 4)
    aborted = [
        (e.producer_id, e.first_offset, e.last_offset) for e in AbortedIndex.from_bytes(segment.aborted)
    ]
    assert aborted == [(3, 0, 1), (2, 3, 6)]
    assert sorted(map(astuple, segment.open_transactions)) == [(1, 0, 2, True), (2, 0, 3, False)]
