"""Partial replay of a log equals a full replay."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.common.clock import ManualClock
from barnabas.coordination.loading import Loading
from barnabas.coordination.shard import ProducerIdAndEpoch
from barnabas.log.log import Log, Origin
from barnabas.records.builder import build_batch
from barnabas.records.control import EndTransactionMarker, end_transaction_marker
from barnabas.records.record import Record
from tests.support.builders.logs import new_log

PRODUCERS = (ProducerIdAndEpoch(7, 0), ProducerIdAndEpoch(8, 3))


class Diary:
    """A shard that also records its calls."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.pending: dict[ProducerIdAndEpoch, list[Record]] = {}
        self.replayed: list[int] = []

    def replay(self, record: Record, producer: ProducerIdAndEpoch | None) -> None:
        self.replayed.append(record.offset)
        if producer is not None:
            self.pending.setdefault(producer, []).append(record)
        else:
            self._store(record)

    def complete_transaction(self, producer: ProducerIdAndEpoch, *, committed: bool) -> None:
        for record in self.pending.pop(producer, []):
            if committed:
                self._store(record)

    def _store(self, record: Record) -> None:
        assert record.key is not None
        self.values.pop(record.key, None)
        if record.value is not None:
            self.values[record.key] = record.value

    def loaded(self) -> None: ...

    def unloaded(self) -> None: ...


class Writing:
    """A log, and the shard of a coordinator that has written it."""

    def __init__(self) -> None:
        self.log: Log = new_log("/data/topic-0")
        self.live = Diary()

    def write(self, *records: tuple[bytes, bytes | None], producer: ProducerIdAndEpoch | None = None) -> None:
        stamped = [Record(0, 0, key, value) for key, value in records]
        if producer is None:
            batch = build_batch(stamped)
        else:
            producer_id, epoch = producer
            batch = build_batch(stamped, producer_id=producer_id, producer_epoch=epoch, transactional=True)
        first = self.log.append_as_leader(memoryview(batch), 0, 0, origin=Origin.COORDINATOR).first_offset
        for offset, record in enumerate(stamped, first):
            self.live.replay(record._replace(offset=offset), producer)

    def end(self, producer: ProducerIdAndEpoch, *, committed: bool) -> None:
        marker = end_transaction_marker(*producer, EndTransactionMarker(committed, 0), timestamp=0)
        self.log.append_as_leader(memoryview(marker), 0, 0, origin=Origin.COORDINATOR)
        self.live.complete_transaction(producer, committed=committed)

    def load(self, *, every_record: bool = False) -> Diary:
        shard = Diary()
        loading = Loading(self.log, shard, ManualClock(), every_record=every_record)
        while not loading.run_slice():
            pass
        return shard


@pytest.fixture
def writing() -> Writing:
    return Writing()


def test_records_that_compaction_would_remove_are_not_replayed(writing: Writing) -> None:
    writing.write((b"a", b"1"), (b"b", b"1"))
    writing.write((b"a", b"2"))
    writing.write((b"b", None))
    writing.write((b"a", b"3"))
    assert writing.load().replayed == [3, 4]
    assert writing.load().values == {b"a": b"3"}


def test_of_a_topic_that_is_not_compacted_everything_is(writing: Writing) -> None:
    writing.write((b"a", b"1"), (b"a", b"2"))
    assert writing.load(every_record=True).replayed == [0, 1]


def test_transactions_see_earlier_writes(writing: Writing) -> None:
    writing.write((b"a", b"before"))
    writing.write((b"a", b"within"), producer=PRODUCERS[0])
    writing.end(PRODUCERS[0], committed=True)
    assert writing.load().values == {b"a": b"within"}


KEYS = st.sampled_from([b"a", b"b", b"c"])
RECORDS = st.lists(st.tuples(KEYS, st.none() | st.sampled_from([b"1", b"2", b"3"])), min_size=1, max_size=3)
WRITES = st.tuples(st.just("write"), RECORDS, st.none() | st.sampled_from(PRODUCERS))
ENDS = st.tuples(st.just("end"), st.booleans(), st.sampled_from(PRODUCERS))


@given(st.lists(WRITES | ENDS, max_size=25))
@settings(deadline=None, max_examples=200)
def test_a_loaded_shard_is_the_one_that_has_written(
    steps: list[tuple[str, object, ProducerIdAndEpoch | None]],
) -> None:
    writing = Writing()
    for what, how, producer in steps:
        if isinstance(how, list):
            writing.write(*how, producer=producer)
        elif producer is not None:
            assert what == "end"
            writing.end(producer, committed=bool(how))
    loaded = writing.load()
    assert (loaded.values, loaded.pending) == (writing.live.values, writing.live.pending)
    assert list(loaded.values) == list(writing.live.values), "in the order of their last change"
