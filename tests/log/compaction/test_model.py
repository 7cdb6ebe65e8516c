"""Compaction against a model: a reader from the start gets the same table, and only records that were written."""

import random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from barnabas.log.compaction.candidates import CompactionLimits
from barnabas.log.compaction.keys import BYTES_PER_KEY
from barnabas.records.compression import Codec
from barnabas.records.record import Record
from barnabas.testing.files import FaultyFileSystem
from tests.support.builders.compacted_logs import (
    COMPACTED,
    Pair,
    batches,
    clean,
    committed,
    final_values,
    keyed,
    put,
    records,
)
from tests.support.builders.logs import NOW, PARTITION, TOPIC_ID, append, end_transaction, get, loaded, marker

PRODUCERS = (1, 2)
KEYS = st.sampled_from([b"a", b"b", b"c", b"d" * 40, b"e" * 40])
VALUES = st.one_of(st.none(), st.binary(max_size=12))
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4)
CODECS = st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4, Codec.GZIP])
CONFIG = COMPACTED
RETENTION = CONFIG.delete_retention_ms


class CompactionMachine(RuleBasedStateMachine):
    """`written` has every record by offset; `outcome` the outcome of transactional offsets."""

    @initialize()
    def start(self) -> None:
        self.fs = FaultyFileSystem()
        self.logs, _ = loaded(self.fs, CONFIG)
        self.log = self.logs.create(PARTITION, TOPIC_ID, CONFIG)
        self.now = NOW
        self.boot = 1
        self.written: dict[int, Record] = {}
        self.aborted: set[int] = set()
        self.open: dict[int, list[int]] = {}
        self.sequences = dict.fromkeys(PRODUCERS, 0)
        self.last_batch: dict[int, bytearray] = {}
        self.cleaned_upto = 0
        self.first_cleaned: dict[int, int] = {}  # offset of a tombstone -> when a compaction saw it first

    # -- writing ------------------------------------------------------------------------------------

    @rule(pairs=PAIRS, codec=CODECS)
    def append(self, pairs: list[Pair], codec: Codec) -> None:
        self.note(put(self.log, *pairs, timestamp=self.now, compression=codec).first_offset, pairs)

    @rule(producer=st.sampled_from(PRODUCERS), pairs=PAIRS, codec=CODECS)
    def append_in_transaction(self, producer: int, pairs: list[Pair], codec: Codec) -> None:
        data = keyed(
            *pairs,
            timestamp=self.now,
            compression=codec,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=self.sequences[producer],
            transactional=True,
        )
        self.last_batch[producer] = bytearray(data)
        self.sequences[producer] += len(pairs)
        first = append(self.log, data, now_ms=self.now).first_offset
        self.open.setdefault(producer, []).extend(range(first, first + len(pairs)))
        self.note(first, pairs)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), commits=st.booleans())
    def end(self, data: st.DataObject, commits: bool) -> None:
        producer = data.draw(st.sampled_from(sorted(self.open)))
        end_transaction(self.log, marker(producer, 0, committed=commits, timestamp=self.now), self.now)
        offsets = self.open.pop(producer)
        if not commits:
            self.aborted.update(offsets)

    def note(self, first: int, pairs: list[Pair]) -> None:
        for place, (key, value) in enumerate(pairs):
            self.written[first + place] = Record(first + place, self.now + place, key, value)

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now)

    @rule(milliseconds=st.sampled_from([1, 400, RETENTION]))
    def wait(self, milliseconds: int) -> None:
        self.now += milliseconds

    # -- compacting ---------------------------------------------------------------------------------

    @rule(keys=st.sampled_from([1000, 1000, 3]))
    def compact(self, keys: int) -> None:
        before = self.log.log_start_offset, self.log.log_end_offset
        effort = CompactionLimits(keys * BYTES_PER_KEY, float("inf"))
        result = clean(self.log, self.cleaned_upto, self.now, effort)
        assert (self.log.log_start_offset, self.log.log_end_offset) == before
        if result is None:
            return
        self.cleaned_upto = result.cleaned_upto
        for offset, record in self.written.items():
            if record.value is None and offset < result.cleaned_upto:
                self.first_cleaned.setdefault(offset, self.now)
        self.check_nothing_repeats()
        self.check_tombstones()

    def check_nothing_repeats(self) -> None:
        keys = [record.key for record in committed(self.log) if record.offset < self.cleaned_upto]
        assert len(keys) == len(set(keys))

    def check_tombstones(self) -> None:
        """A reader within delete.retention.ms sees every effective deletion."""
        present = {record.offset for record in records(self.log)}
        latest = {record.key: record.offset for record in self.committed_records()}
        for offset in latest.values():
            seen = self.first_cleaned.get(offset, self.now)
            if self.written[offset].value is None and self.now < seen + RETENTION:
                assert offset in present

    # -- restarting ---------------------------------------------------------------------------------

    @rule(how=st.sampled_from(["clean", "killed", "crashed"]), seed=st.integers(0, 1 << 16))
    def restart(self, how: str, seed: int) -> None:
        if how == "clean":
            self.logs.close()
        else:
            self.log.flush()
            self.logs.checkpoint()
            self.fs = self.fs.crash(lose_unsynced=how == "crashed", torn=random.Random(seed))
            self.boot += how == "crashed"
        high_watermark = self.log.high_watermark
        self.logs, report = loaded(self.fs, CONFIG, boot=f"boot-{self.boot}")
        assert not report.damaged
        self.log = get(self.logs)
        self.log.advance_high_watermark(high_watermark)

    @precondition(lambda self: self.last_batch)
    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        producer = data.draw(st.sampled_from(sorted(self.last_batch)))
        assert append(self.log, bytearray(self.last_batch[producer]), now_ms=self.now).duplicate

    # -- what must always be true -------------------------------------------------------------------

    @invariant()
    def what_is_there_was_written_like_that(self) -> None:
        for read in batches(self.log):
            assert read.header.base_offset <= read.header.last_offset < self.log.log_end_offset
            for record in read.records if not read.header.is_control else ():
                assert record == self.written[record.offset]

    @invariant()
    def readers_of_committed_records_get_the_same_table(self) -> None:
        found = committed(self.log)
        assert not self.aborted & {record.offset for record in found}
        assert final_values(found) == final_values(self.committed_records())

    @invariant()
    def readers_of_all_records_get_what_was_not_compacted(self) -> None:
        found = {record.offset for record in records(self.log)}
        untouched = {offset for offset in self.written if offset >= self.log.active.base_offset}
        assert untouched <= found
        latest = {record.key: record.offset for record in self.committed_records()}
        assert {offset for offset in latest.values() if self.written[offset].value is not None} <= found

    def committed_records(self) -> list[Record]:
        stable = self.log.last_stable_offset
        return [
            record
            for offset, record in sorted(self.written.items())
            if offset < stable and offset not in self.aborted
        ]


TestCompaction = CompactionMachine.TestCase
TestCompaction.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
