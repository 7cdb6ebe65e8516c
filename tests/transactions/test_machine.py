"""The shard against a small model, with random requests, retries, zombies, timeouts and restarts."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from barnabas.common.errors import ErrorCode
from barnabas.common.types import TopicPartition
from barnabas.coordination.shard import ProducerIdAndEpoch
from barnabas.transactions.transaction import LAST_EPOCH, V1, V2, Transaction, TransactionState
from tests.transactions.journal import NAME, OTHER, TIMEOUT_MS, TP, Journal, code_of

S = TransactionState
OK = ErrorCode.NONE
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS


@dataclass
class Model:
    """Client-visible state of one transactional id."""

    epoch: int
    open: set[TopicPartition] | None = None  # None: no transaction
    outcome: bool | None = None  # of the last transaction that ended; None: none since the last start
    writing: bool = False  # the markers
    ended_epoch: int | None = None  # the epoch with which a V2 client ended the last transaction
    last: int | None = None  # the epoch before a recovery
    fences: int = 0
    committed: list[frozenset[TopicPartition]] = field(default_factory=list)


class Transactions(RuleBasedStateMachine):
    @initialize(epoch=st.sampled_from([-1, LAST_EPOCH - 4]))
    def start(self, epoch: int) -> None:
        self.journal = Journal()
        if epoch >= 0:
            self.journal.put(Transaction(NAME, 50, TIMEOUT_MS, self.journal.now_ms, epoch=epoch))
        self.model = Model(epoch)
        self.new_instance()

    # -- what producers do --------------------------------------------------------------------------

    @rule()
    def new_instance(self) -> None:
        model = self.model
        expected = CONCURRENT if model.writing or model.open is not None else OK
        assert code_of(self.journal.initialize) is expected
        if model.writing:
            return
        if model.open is not None:
            self._end(False, bumped=True)
            model.ended_epoch = None
            return
        self._next_epoch()
        model.outcome = model.ended_epoch = model.last = None

    @rule(recovers_again=st.booleans())
    def recover(self, recovers_again: bool) -> None:
        model = self.model
        if model.writing or model.open is not None or model.epoch > LAST_EPOCH:
            return
        before = self.journal.instance()
        assert code_of(lambda: self.journal.initialize(before)) is OK
        self._next_epoch()
        after = self.journal.instance()
        if recovers_again:
            assert code_of(lambda: self.journal.initialize(before)) is OK
            assert self.journal.instance() == after
        model.outcome = model.ended_epoch = None

    @rule(back=st.integers(1, 3))
    def a_zombie_is_fenced(self, back: int) -> None:
        present = self.journal.instance()
        zombie = ProducerIdAndEpoch(present.producer_id, present.epoch - back)
        if zombie.epoch < 0 or zombie.epoch == self.model.ended_epoch:
            return
        written = len(self.journal.log)
        assert code_of(lambda: self.journal.add(TP, instance=zombie)) is ErrorCode.PRODUCER_FENCED
        assert code_of(lambda: self.journal.end(True, zombie)) is ErrorCode.PRODUCER_FENCED
        assert code_of(lambda: self.journal.end(False, zombie)) is ErrorCode.PRODUCER_FENCED
        assert len(self.journal.log) == written

    @rule(tp=st.sampled_from([TP, OTHER]), version=st.sampled_from([V1, V2]))
    def add(self, tp: TopicPartition, version: int) -> None:
        model = self.model
        if model.epoch > LAST_EPOCH:
            return
        expected = CONCURRENT if model.writing else OK
        assert code_of(lambda: self.journal.add(tp, version=version)) is expected
        if not model.writing:
            model.open = (model.open or set()) | {tp}

    @rule(tp=st.sampled_from([TP, OTHER]))
    def verify(self, tp: TopicPartition) -> None:
        model = self.model
        if model.writing or model.epoch > LAST_EPOCH:
            return
        inside = model.open is not None and tp in model.open
        assert self.journal.shard.verify(NAME, self.journal.instance(), [tp]) == {
            tp: OK if inside else ErrorCode.TRANSACTION_ABORTABLE
        }

    @precondition(lambda self: self.model.epoch <= LAST_EPOCH)
    @rule(committed=st.booleans())
    def end_v1(self, committed: bool) -> None:
        model = self.model
        if model.open is not None:
            expected = OK
        elif model.outcome is not committed:
            expected = ErrorCode.INVALID_TXN_STATE
        else:
            expected = CONCURRENT if model.writing else OK
        assert code_of(lambda: self.journal.end(committed)) is expected
        if model.open is not None:
            self._end(committed, bumped=False)
            model.ended_epoch = None

    @precondition(lambda self: self.model.epoch <= LAST_EPOCH)
    @rule(committed=st.booleans())
    def end_v2(self, committed: bool) -> None:
        model = self.model
        before = model.epoch
        if model.writing:
            expected = ErrorCode.PRODUCER_FENCED
        elif model.open is None and committed:
            expected = ErrorCode.INVALID_TXN_STATE
        else:
            expected = OK
        assert code_of(lambda: self.journal.end(committed, version=V2)) is expected
        if expected is OK:
            self._end(committed, bumped=True)
            model.ended_epoch = before

    @precondition(lambda self: self.model.ended_epoch is not None and self.model.open is None)
    @rule(committed=st.booleans())
    def a_v2_end_is_sent_again(self, committed: bool) -> None:
        model = self.model
        assert model.ended_epoch is not None
        present = self.journal.get()
        rotated = present.epoch == 0
        sender = ProducerIdAndEpoch(
            present.previous_producer_id if rotated else present.producer_id, model.ended_epoch
        )
        if model.outcome is not committed:
            expected = ErrorCode.INVALID_TXN_STATE
        else:
            expected = CONCURRENT if model.writing else OK
        assert code_of(lambda: self.journal.end(committed, sender, V2)) is expected

    # -- what the coordinator does ------------------------------------------------------------------

    @rule()
    def all_markers_are_written(self) -> None:
        if self.model.writing:
            assert self.journal.complete() is not None
            self.model.writing = False
            if self.model.epoch > LAST_EPOCH and self.model.ended_epoch == LAST_EPOCH:
                self.model.epoch = 0

    @rule(version=st.sampled_from([V1, V2]))
    def time_passes(self, version: int) -> None:
        journal, model = self.journal, self.model
        journal.now_ms += TIMEOUT_MS + 1
        late = journal.shard.timed_out(journal.now_ms)
        assert bool(late) == (model.open is not None)
        for one in late:
            before = model.epoch
            journal.run(journal.shard.abort_timed_out(one.transactional_id, version, journal.now_ms))
            self._end(False, bumped=True)
            # An unaware V2 producer may still abort, and continues.
            model.ended_epoch = before if before < LAST_EPOCH else None

    @rule()
    def restart(self) -> None:
        self.journal.shard = self.journal.reloaded()

    # -- the model ------------------------------------------------------------------------------------

    def _next_epoch(self) -> None:
        self.model.epoch = 0 if self.model.epoch >= LAST_EPOCH else self.model.epoch + 1

    def _end(self, committed: bool, *, bumped: bool) -> None:
        model = self.model
        model.open, model.outcome, model.writing = None, committed, True
        model.epoch += bumped

    @invariant()
    def memory_is_what_a_replay_gives(self) -> None:
        assert list(self.journal.reloaded()) == list(self.journal.shard)

    @invariant()
    def the_state_is_what_the_model_says(self) -> None:
        present, model = self.journal.get(), self.model
        assert present.epoch == model.epoch
        assert present.is_ongoing == (model.open is not None)
        assert present.is_decided == model.writing
        assert not present.is_ongoing or set(present.partitions) == model.open
        assert not present.is_at_rest or present.partitions == frozenset()
        if model.writing:
            assert (present.state is S.PREPARE_COMMIT) == model.outcome


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
