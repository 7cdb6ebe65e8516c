"""The share coordinator's state: the newest state of every offset, also after a replay."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.coordination.shard import CoordinatorRecord
from barnabas.protocol.internal_topics import SharePartitionKey
from barnabas.records.record import Record
from barnabas.share.acknowledgements import PersisterStateBatch
from barnabas.share.state_shard import ShareStateShard, StateWrite
from barnabas.share.stored_state import StoredState, drop_below, overlay

KEYS = [SharePartitionKey("crew", bytes([1]) * 16, index) for index in range(2)]
BATCHES = st.builds(
    lambda first, size, state, count: PersisterStateBatch(first, first + size, state, count),
    st.integers(0, 40),
    st.integers(0, 12),
    st.sampled_from([0, 2, 3, 4]),
    st.integers(1, 3),
)


def words(batches: list[PersisterStateBatch]) -> dict[int, tuple[int, int]]:
    return {
        offset: (state, count) for first, last, state, count in batches for offset in range(first, last + 1)
    }


@given(st.lists(BATCHES, max_size=30), st.integers(0, 40))
def test_the_newest_word_on_an_offset_counts(batches: list[PersisterStateBatch], start: int) -> None:
    laid: list[PersisterStateBatch] = []
    expected: dict[int, tuple[int, int]] = {}
    for batch in batches:
        overlay(laid, batch)
        expected.update(words([batch]))
        for one, following in pairwise(laid):
            assert one.last < following.first
            assert one.last + 1 < following.first or one[2:] != following[2:], "neighbours alike are joined"
    drop_below(laid, start)
    assert words(laid) == {offset: word for offset, word in expected.items() if offset >= start}


def new_shard() -> ShareStateShard:
    return ShareStateShard(lambda key: True, lambda: 1_700_000_000_000, updates_per_snapshot=3)


def facts(state: StoredState | None) -> object:
    if state is None:
        return None
    names = ("state_epoch", "leader_epoch", "start_offset", "finished_count", "batches", "updates")
    return [getattr(state, name) for name in names]


WRITES = st.tuples(st.sampled_from(KEYS), st.lists(BATCHES, max_size=3), st.integers(0, 20))


@given(st.lists(st.lists(WRITES, min_size=1, max_size=4), max_size=8))
def test_replay_restores_the_state_in_memory(
    iterations: list[list[tuple[SharePartitionKey, list[PersisterStateBatch], int]]],
) -> None:
    """Several writes of one turn of the loop are appended together, with a snapshot among them or not."""
    shard = new_shard()
    log: list[Record] = []

    def append(records: list[CoordinatorRecord]) -> None:
        for record in records:
            written = Record(len(log), 0, record.key, record.value)
            log.append(written)
            shard.replay(written, None)

    expected = {key: StoredState(start_offset=0) for key in KEYS}
    for key in KEYS:
        append(shard.initialize(key, 0, 0).records)
        append(shard.read(key, 5).records)
    for iteration in iterations:
        records = []
        for key, batches, start in iteration:
            at = max(start, expected[key].start_offset)
            records += shard.write(key, StateWrite(0, 5, at, len(batches), batches)).records
            expected[key].update(5, at, len(batches), batches)
        append(records)
    again = new_shard()
    for record in log:
        again.replay(record, None)
    for key in KEYS:
        state = shard.get(key)
        assert state is not None
        assert facts(again.get(key)) == facts(state)
        assert (state.start_offset, state.batches) == (expected[key].start_offset, expected[key].batches)
    needed = shard.first_needed_offset(len(log))
    short = new_shard()
    for record in log[needed:]:
        short.replay(record, None)
    assert [facts(short.get(key)) for key in KEYS] == [facts(shard.get(key)) for key in KEYS]


def test_a_write_that_was_not_appended_does_not_defer_the_snapshot() -> None:
    shard = ShareStateShard(lambda key: True, lambda: 0, 0)  # a snapshot with every write
    for number, record in enumerate(shard.initialize(KEYS[0], 0, 0).records):
        shard.replay(Record(number, 0, record.key, record.value), None)
    wanted = StateWrite(0, -1, 0, 0, [])
    rejected = shard.write(KEYS[0], wanted)
    assert rejected.revert is not None
    rejected.revert()
    again = shard.write(KEYS[0], wanted)
    assert [record.key for record in again.records] == [record.key for record in rejected.records]


def test_an_offset_that_cannot_be_is_refused() -> None:
    shard = ShareStateShard(lambda key: True, lambda: 0, 500)
    with pytest.raises(KafkaError) as refusal:
        shard.initialize(KEYS[0], 0, -(2**63))
    assert refusal.value.code is ErrorCode.INVALID_REQUEST
