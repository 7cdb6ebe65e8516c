"""The log against a simple model under random operations."""

import random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from barnabas.config.topic import LogConfig
from barnabas.log.log import Log
from barnabas.testing.files import FaultyFileSystem
from tests.support.builders.logs import (
    NOW,
    PARTITION,
    TOPIC_ID,
    append,
    batch,
    end_transaction,
    get,
    headers,
    loaded,
    marker,
    produced,
    read_all,
)

CONFIG = LogConfig(
    segment_bytes=600,
    index_interval_bytes=150,
    retention_bytes=3000,
    file_delete_delay_ms=0,
    flush_messages=1 << 60,
)
PRODUCERS = (1, 2, 3)


class LogMachine(RuleBasedStateMachine):
    """`values` is the expected value at every offset, None for a marker."""

    @initialize()
    def start(self) -> None:
        self.fs = FaultyFileSystem()
        self.logs, _ = loaded(self.fs, CONFIG)
        self.log = self.logs.create(PARTITION, TOPIC_ID, CONFIG)
        self.values: list[bytes | None] = []
        self.batch_starts: list[int] = []
        self.sequences = dict.fromkeys(PRODUCERS, 0)
        self.open: dict[int, int] = {}
        self.last_in_transaction: dict[int, int] = {}
        self.aborted: list[tuple[int, int, int]] = []
        self.log_start = 0
        self.boot = 1

    # -- writing ------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 5), size=st.integers(0, 90))
    def append(self, count: int, size: int) -> None:
        values = [f"{len(self.values) + i}".encode().ljust(size, b".") for i in range(count)]
        result = append(self.log, batch(*values, timestamp=NOW + len(self.values)))
        assert result.first_offset == len(self.values)
        self.note(values)

    @rule(producer=st.sampled_from(PRODUCERS), transactional=st.booleans())
    def append_of_producer(self, producer: int, transactional: bool) -> None:
        transactional = transactional or producer in self.open
        value = f"{len(self.values)} of {producer}".encode()
        sequence = self.sequences[producer]
        data = produced(
            producer, 0, sequence, value, transactional=transactional, timestamp=NOW + len(self.values)
        )
        again = bytearray(data)
        result = append(self.log, data)
        assert (result.first_offset, result.duplicate) == (len(self.values), False)
        if transactional:
            self.open.setdefault(producer, len(self.values))
            self.last_in_transaction[producer] = len(self.values)
        self.note([value])
        self.sequences[producer] = sequence + 1
        repeated = append(self.log, again)
        assert (repeated.first_offset, repeated.duplicate) == (result.first_offset, True)

    @precondition(lambda self: self.open)
    @rule(committed=st.booleans(), which=st.integers(0, 10))
    def end(self, committed: bool, which: int) -> None:
        producer = sorted(self.open)[which % len(self.open)]
        end_transaction(self.log, marker(producer, 0, committed=committed, timestamp=NOW + len(self.values)))
        first = self.open.pop(producer)
        if not committed:
            self.aborted.append((producer, first, len(self.values)))
        self.note([None])

    def note(self, values: list[bytes] | list[None]) -> None:
        self.batch_starts.append(len(self.values))
        self.values += values

    # -- moving the ends ----------------------------------------------------------------------------

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW)

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.logs.checkpoint()
        assert self.log.recovery_point == len(self.values)

    @rule(part=st.floats(0, 1))
    def delete_records(self, part: float) -> None:
        self.log_start = max(self.log_start, int(len(self.values) * part))
        self.log.advance_log_start(self.log_start)

    @rule()
    def retention(self) -> None:
        self.log.delete_old_segments(NOW)
        self.logs.housekeeping(NOW)
        self.log_start = self.log.log_start_offset

    @precondition(lambda self: not self.open and len(self.values) > self.log_start)
    @rule(part=st.floats(0.5, 1))
    def truncate(self, part: float) -> None:
        offset = max(int(len(self.values) * part), self.log_start, self.log.segments[0].base_offset)
        self.log.truncate_to(offset)
        self.log.flush()  # until then a crash may restore truncated records
        self.forget_from(max(start for start in [*self.batch_starts, len(self.values)] if start <= offset))

    def forget_from(self, end: int) -> None:
        del self.values[end:]
        self.batch_starts = [start for start in self.batch_starts if start < end]
        self.log_start = min(self.log_start, end)
        self.relearn_producers(end)

    def relearn_producers(self, end: int) -> None:
        """After a truncation the model takes producers and transactions from the log."""
        for producer in PRODUCERS:
            known = self.log.producers.get(producer)
            self.sequences[producer] = known.last_sequence + 1 if known is not None else 0
        self.aborted = [entry for entry in self.aborted if entry[2] < end]
        self.open = self.log.producers.open_transactions
        writing = {p: self.log.producers.get(p) for p in self.open}
        self.last_in_transaction = {p: each.last_offset for p, each in writing.items() if each is not None}

    # -- starting again -----------------------------------------------------------------------------

    @rule()
    def restart(self) -> None:
        self.logs.close()
        self.logs, report = loaded(self.fs, CONFIG, boot=f"boot-{self.boot}")
        assert not report.recovered
        self.log = get(self.logs)

    @rule()
    def kill(self) -> None:
        self.fs = self.fs.crash(lose_unsynced=False)
        self.logs, report = loaded(self.fs, CONFIG, boot=f"boot-{self.boot}")
        assert not report.damaged
        assert not report.cut_bytes
        self.log = get(self.logs)
        self.log.advance_high_watermark(self.log.log_end_offset)
        self.log_start = self.log.log_start_offset  # moved up since the last checkpoint: may be forgotten

    @rule(seed=st.integers(0, 1 << 30))
    def crash(self, seed: int) -> None:
        flushed = self.log.recovery_point
        self.logs.checkpoint()
        self.fs = self.fs.crash(torn=random.Random(seed))
        self.boot += 1
        self.logs, report = loaded(self.fs, CONFIG, boot=f"boot-{self.boot}")
        assert not report.damaged, report.damaged
        if self.logs.get(PARTITION) is None:
            assert flushed == 0
            self.logs.create(PARTITION, TOPIC_ID, CONFIG)
        self.log = get(self.logs)
        self.log.advance_high_watermark(self.log.log_end_offset)
        assert flushed <= self.log.log_end_offset
        self.log_start = self.log.log_start_offset
        if self.log.log_end_offset <= len(self.values):
            self.forget_from(self.log.log_end_offset)
            self.log_start = self.log.log_start_offset

    # -- what must hold -----------------------------------------------------------------------------

    @invariant()
    def both_say_the_same(self) -> None:
        log: Log | None = getattr(self, "log", None)
        if log is None:
            return
        assert log.log_end_offset == len(self.values)
        assert log.log_start_offset == self.log_start
        assert log.size_bytes == sum(segment.size for segment in log.segments)
        found = dict(read_all(log))
        wanted = {
            n: value for n, value in enumerate(self.values) if n >= self.log_start and value is not None
        }
        assert found == wanted
        assert log.recovery_point <= log.log_end_offset
        assert log.producers.open_transactions == self.open
        in_the_way = [p for p in self.open if self.last_in_transaction[p] >= self.log_start]
        assert set(log.producers.unstable) == set(in_the_way)
        lowest = min((max(self.open[p], self.log_start) for p in in_the_way), default=log.high_watermark)
        highest = min((self.last_in_transaction[p] for p in in_the_way), default=log.high_watermark)
        assert lowest <= log.last_stable_offset <= highest
        assert log.decided_offset == min(self.open.values(), default=log.high_watermark)

    @invariant()
    def look_ups_find_the_right_record(self) -> None:
        log: Log | None = getattr(self, "log", None)
        if log is None or not self.values:
            return
        for offset in {self.log_start, (self.log_start + len(self.values)) // 2, len(self.values) - 1}:
            if not self.log_start <= offset < len(self.values):
                continue
            first = headers(log.read(offset, 1, log.log_end_offset))[0]
            assert first.base_offset <= offset <= first.last_offset
            found = log.offset_for_timestamp(first.max_timestamp)
            assert found is not None
            assert found.offset == max(first.base_offset, self.log_start)

    @invariant()
    def aborted_transactions_are_known(self) -> None:
        log: Log | None = getattr(self, "log", None)
        if log is None or not self.values:
            return
        base = log.segments[0].base_offset
        known = [(p, first) for p, first, last in self.aborted if last >= max(base, self.log_start)]
        assert log.aborted_transactions(self.log_start, log.log_end_offset) == sorted(
            known, key=lambda e: e[1]
        )


TestLog = LogMachine.TestCase
TestLog.settings = settings(
    max_examples=80,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
