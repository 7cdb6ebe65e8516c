"""Random fetches, acknowledgements, lost locks, failed writes and crashes, against a model of single records.

The model knows nothing of runs: it has a state, a holder and a delivery count for each offset.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.share.acknowledgements import AcknowledgedRange, PersisterStateBatch, ShareStateWrite
from barnabas.share.acquisition import AcquireRequest, Span, acquire
from barnabas.share.partition import SharePartition
from barnabas.share.runs import FINISHED, Acknowledgement, RecordState
from barnabas.share.window import ShareSettings

MEMBERS = st.sampled_from(["ann", "bob", "cid"])
SETTINGS = ShareSettings(max_locks=20, delivery_limit=3, lock_seconds=10.0)
NO_HOLDER = ""


class Coordinator:
    """Stored state: the newest state of each offset, as `__share_group_state` returns it."""

    def __init__(self) -> None:
        self.start = 0
        self.states: dict[int, tuple[int, int]] = {}

    def store(self, write: ShareStateWrite) -> None:
        self.start = max(self.start, write.start_offset)
        for first, last, state, count in write.batches:
            for offset in range(first, last + 1):
                self.states[offset] = (state, count)

    def batches(self) -> list[PersisterStateBatch]:
        return [
            PersisterStateBatch(offset, offset, *word)
            for offset, word in self.states.items()
            if offset >= self.start
        ]


class Record:
    def __init__(self) -> None:
        self.state = RecordState.AVAILABLE
        self.holder = NO_HOLDER
        self.count = 0
        self.deadline = 0.0
        self.pending = False


class SharePartitionMachine(RuleBasedStateMachine):
    held = Bundle("held")

    @initialize(sizes=st.lists(st.integers(1, 7), min_size=1, max_size=12), dead_letters=st.booleans())
    def begin(self, sizes: list[int], dead_letters: bool) -> None:
        self.spans: list[Span] = []
        following = 0
        for size in sizes:
            self.spans.append(Span(following, following + size - 1))
            following += size
        self.records = [Record() for _ in range(following)]
        self.settings = SETTINGS._replace(dead_letters=dead_letters)
        self.stored = Coordinator()
        self.share = SharePartition(0, [], self.settings)
        self.now = 0.0
        self.write: ShareStateWrite | None = None
        self.answers: list[KafkaError | None] = []
        self.accepted: set[int] = set()

    # -- consumers ----------------------------------------------------------------------------------

    @rule(
        target=held, member=MEMBERS, limit=st.integers(1, 12), size=st.integers(1, 12), strict=st.booleans()
    )
    def take(self, member: str, limit: int, size: int, strict: bool) -> Any:
        start = self.share.next_offset()
        spans = [span for span in self.spans if span.last >= start]
        taken = acquire(self.share, AcquireRequest(member, limit, size, strict), start, spans, self.now)
        for first, last, count in taken:
            for offset in range(first, last + 1):
                record = self.records[offset]
                assert record.state is RecordState.AVAILABLE, f"{offset} was {record.state.name}"
                assert not record.pending
                record.state, record.holder, record.count = RecordState.ACQUIRED, member, record.count + 1
                record.deadline = self.now + self.settings.lock_seconds
                assert record.count == count <= self.settings.delivery_limit
        total = sum(last - first + 1 for first, last, _ in taken)
        assert not strict or total <= limit
        return member, [(first, last) for first, last, _ in taken]

    @rule(member=MEMBERS, limit=st.integers(1, 12))
    def take_in_vain(self, member: str, limit: int) -> None:
        """The member exceeds its quota: it does not receive its acquired records."""
        _, taken = self.take(member, limit, limit, strict=False)
        for first, last in taken:
            self.share.give_back(member, first, last)
            for record in self.records[first : last + 1]:
                record.state, record.holder, record.count = RecordState.AVAILABLE, NO_HOLDER, record.count - 1

    @rule(
        work=held,
        acknowledgement=st.sampled_from(list(Acknowledgement)),
        cut=st.integers(0, 6),
        as_somebody_else=st.booleans(),
    )
    def acknowledge(
        self, work: Any, acknowledgement: Acknowledgement, cut: int, as_somebody_else: bool
    ) -> None:
        member, taken = work
        if as_somebody_else:
            member = "eve"
        for first, last in taken[:2]:
            low = min(first + cut, last)
            self._acknowledge(member, AcknowledgedRange(low, last, acknowledgement))

    def _acknowledge(self, member: str, acknowledgement: AcknowledgedRange) -> None:
        offsets = range(max(acknowledgement.first, self.share.start_offset), acknowledgement.last + 1)
        permitted = all(
            self.records[offset].state is RecordState.ACQUIRED
            and self.records[offset].holder == member
            and not self.records[offset].pending
            for offset in offsets
        )
        try:
            self.share.acknowledge(member, [acknowledgement], self.now, self.answers.append)
        except KafkaError:
            assert not permitted
            return
        assert permitted
        for offset in offsets:
            record = self.records[offset]
            if acknowledgement.said is Acknowledgement.RENEW:
                record.deadline = self.now + self.settings.lock_seconds
            else:
                record.pending = True
                record.said = acknowledgement.said  # type: ignore[attr-defined]

    @rule(member=MEMBERS)
    def leave(self, member: str) -> None:
        self.share.release(member)
        for record in self.records:
            if record.holder == member and record.state is RecordState.ACQUIRED and not record.pending:
                self._give_back(record)

    @rule(seconds=st.sampled_from([1.0, 4.0, 11.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.share.expire(self.now)
        for record in self.records:
            if record.state is RecordState.ACQUIRED and record.deadline <= self.now and not record.pending:
                self._give_back(record)

    def _give_back(self, record: Record) -> None:
        record.holder = NO_HOLDER
        record.state = self._outcome(record, Acknowledgement.RELEASE)

    def _outcome(self, record: Record, acknowledgement: Acknowledgement) -> RecordState:
        if acknowledgement is Acknowledgement.ACCEPT:
            return RecordState.ACKNOWLEDGED
        if acknowledgement is Acknowledgement.RELEASE and record.count < self.settings.delivery_limit:
            return RecordState.AVAILABLE
        if acknowledgement is not Acknowledgement.GAP and self.settings.dead_letters:
            return RecordState.ARCHIVING
        return RecordState.ARCHIVED

    # -- storing ------------------------------------------------------------------------------------

    @rule()
    def start_write(self) -> None:
        if self.write is None:
            self.write = self.share.take_write()

    @rule(succeeds=st.booleans())
    def end_write(self, succeeds: bool) -> None:
        if self.write is None:
            return
        write, self.write = self.write, None
        touched = [run for change in write.changes for run, _ in change.held]
        offsets = [offset for run in touched for offset in range(run.first, run.last + 1)]
        if succeeds:
            self.stored.store(write)
        self.share.written(write, None if succeeds else KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        for offset in offsets:
            record = self.records[offset]
            record.pending = False
            if not succeeds:
                continue
            if record.state is RecordState.ARCHIVING:
                record.state = RecordState.ARCHIVED
                continue
            acknowledgement = record.said  # type: ignore[attr-defined]
            record.state, record.holder = self._outcome(record, acknowledgement), NO_HOLDER
            if acknowledgement is Acknowledgement.ACCEPT:
                assert offset not in self.accepted, "acknowledged twice"
                self.accepted.add(offset)
        if not succeeds:
            self.time_passes(0.0)

    @rule()
    def bury(self) -> None:
        for run in self.share.archiving():
            first, last = run.first, run.last
            self.share.archive(first, last, self.answers.append)
            for offset in range(first, last + 1):
                assert self.records[offset].state is RecordState.ARCHIVING
                self.records[offset].pending = True

    @rule()
    def crash(self) -> None:
        """Acquisitions are lost; stored state is restored."""
        self.write = None
        self.share = SharePartition(self.stored.start, self.stored.batches(), self.settings)
        for offset, record in enumerate(self.records):
            record.holder, record.pending = NO_HOLDER, False
            if offset < self.stored.start:  # a write that moves the start omits earlier offsets
                assert record.state in FINISHED, f"{offset} is lost"
                continue
            state, count = self.stored.states.get(offset, (RecordState.AVAILABLE, 0))
            record.state, record.count = RecordState(state), count
        for offset in self.accepted:
            assert offset < self.stored.start or self.records[offset].state is RecordState.ACKNOWLEDGED

    # -- what must hold -----------------------------------------------------------------------------

    @invariant()
    def memory_is_the_model(self) -> None:
        if not hasattr(self, "share"):
            return
        following = self.share.start_offset
        open_count = 0
        for run in self.share.runs:
            assert run.first == following, "runs lie edge to edge"
            following = run.last + 1
            for offset in range(run.first, run.last + 1):
                record = self.records[offset]
                assert (run.change is not None) == record.pending
                if run.change is None:
                    assert run.state is record.state, f"{offset}: {run} is not {record.state.name}"
                if record.state not in FINISHED or record.pending:
                    open_count += 1
                    assert run.count == record.count
        assert self.share.open_count == open_count
        assert all(record.state in FINISHED for record in self.records[: self.share.start_offset])
        assert all(not record.count for record in self.records[following:])


SharePartitionMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestSharePartition = SharePartitionMachine.TestCase
