"""Every row of the tables: transitions, and errors in wrong states."""

from __future__ import annotations

import pytest

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.coordination.shard import ProducerIdAndEpoch
from barnabas.transactions.transaction import (
    AT_REST,
    BY_LABEL,
    COMES_FROM,
    DECIDED,
    LAST_EPOCH,
    NO_PRODUCER_ID,
    V1,
    V2,
    IllegalTransitionError,
    Transaction,
    TransactionState,
)
from tests.transactions.journal import NAME, OTHER, TIMEOUT_MS, TP, Journal, code_of

S = TransactionState
NOW = 5_000


def at(state: TransactionState, epoch: int = 3, version: int = V1, producer_id: int = 7) -> Transaction:
    has_partitions = state is S.ONGOING or state in DECIDED
    return Transaction(
        NAME,
        producer_id,
        TIMEOUT_MS,
        NOW,
        epoch=epoch,
        state=state,
        partitions=frozenset({TP}) if has_partitions else frozenset(),
        started_ms=NOW if state is not S.EMPTY else -1,
        version=version,
    )


def journal_at(state: TransactionState, **details: int) -> Journal:
    journal = Journal()
    journal.put(at(state, **details))
    return journal


STEPS = {
    S.EMPTY: lambda one: one.initialized(4, TIMEOUT_MS, NOW, asked_by=NO_PRODUCER_ID),
    S.ONGOING: lambda one: one.with_partitions([TP], V1, NOW),
    S.PREPARE_COMMIT: lambda one: one.decided(
        committed=True, version=V1, next_producer_id=NO_PRODUCER_ID, now_ms=NOW
    ),
    S.PREPARE_ABORT: lambda one: one.decided(
        committed=False, version=V1, next_producer_id=NO_PRODUCER_ID, now_ms=NOW
    ),
    S.DEAD: lambda one: one.dead(),
}


@pytest.mark.parametrize("before", list(S))
@pytest.mark.parametrize("after", STEPS)
def test_only_the_steps_in_the_table_can_be_taken(before: TransactionState, after: TransactionState) -> None:
    if before in COMES_FROM[after]:
        assert STEPS[after](at(before)).state is after
    else:
        with pytest.raises(IllegalTransitionError):
            STEPS[after](at(before))


@pytest.mark.parametrize("before", list(S))
def test_only_a_decided_transaction_can_be_completed(before: TransactionState) -> None:
    after = {S.PREPARE_COMMIT: S.COMPLETE_COMMIT, S.PREPARE_ABORT: S.COMPLETE_ABORT}.get(before)
    if after is None:
        with pytest.raises(IllegalTransitionError):
            at(before).completed(NOW)
    else:
        assert at(before).completed(NOW).state is after


@pytest.mark.parametrize("version", [V1, V2])
def test_fencing_aborts_and_raises_the_epoch_by_one(version: int) -> None:
    fenced = at(S.ONGOING).fenced(version, NOW)
    assert (fenced.state, fenced.epoch, fenced.partitions) == (S.PREPARE_ABORT, 4, frozenset({TP}))


@pytest.mark.parametrize("before", [state for state in S if state is not S.ONGOING])
def test_only_an_ongoing_transaction_is_fenced(before: TransactionState) -> None:
    with pytest.raises(IllegalTransitionError):
        at(before).fenced(V1, NOW)


def test_states_are_named_as_kafka_names_them() -> None:
    assert list(BY_LABEL) == [
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
        "PrepareEpochFence",
    ]  # fmt: skip


# -- InitProducerId -----------------------------------------------------------------------------------


def test_a_new_id_begins_with_epoch_0() -> None:
    journal = Journal()
    assert journal.initialize().error is ErrorCode.NONE
    assert (journal.get().state, journal.get().epoch) == (S.EMPTY, 0)


@pytest.mark.parametrize("state", AT_REST)
def test_a_new_instance_gets_the_next_epoch(state: TransactionState) -> None:
    journal = journal_at(state)
    journal.initialize()
    assert (journal.get().state, journal.instance()) == (S.EMPTY, ProducerIdAndEpoch(7, 4))


def test_a_new_instance_has_the_open_transaction_aborted_and_comes_back() -> None:
    journal = journal_at(S.ONGOING)
    assert code_of(journal.initialize) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert (journal.get().state, journal.get().epoch) == (S.PREPARE_ABORT, 4)
    assert code_of(journal.initialize) is ErrorCode.CONCURRENT_TRANSACTIONS
    journal.complete()
    assert code_of(journal.initialize) is ErrorCode.NONE
    assert journal.instance() == ProducerIdAndEpoch(7, 5)


@pytest.mark.parametrize("state", DECIDED)
def test_a_new_instance_waits_for_the_markers(state: TransactionState) -> None:
    journal = journal_at(state)
    assert code_of(journal.initialize) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert len(journal.log) == 1


def test_used_epochs_lead_to_another_producer_id() -> None:
    journal = journal_at(S.EMPTY, epoch=LAST_EPOCH)
    journal.initialize()
    assert journal.instance() == ProducerIdAndEpoch(100, 0)
    assert code_of(lambda: journal.initialize(ProducerIdAndEpoch(7, LAST_EPOCH))) is ErrorCode.PRODUCER_FENCED


def test_a_producer_that_recovers_gets_the_next_epoch_and_may_ask_again() -> None:
    journal = journal_at(S.COMPLETE_ABORT)
    journal.initialize(ProducerIdAndEpoch(7, 3))
    assert journal.instance() == ProducerIdAndEpoch(7, 4)
    journal.initialize(ProducerIdAndEpoch(7, 3))
    assert journal.instance() == ProducerIdAndEpoch(7, 4)


def test_a_producer_that_recovers_is_fenced_by_a_newer_instance() -> None:
    journal = journal_at(S.EMPTY)
    journal.initialize()
    for zombie in (ProducerIdAndEpoch(7, 3), ProducerIdAndEpoch(7, 9), ProducerIdAndEpoch(8, 4)):
        assert code_of(lambda zombie=zombie: journal.initialize(zombie)) is ErrorCode.PRODUCER_FENCED  # type: ignore[misc]
    assert journal.instance() == ProducerIdAndEpoch(7, 4)


def test_a_producer_that_recovers_with_the_last_epoch_rotates_and_may_ask_again() -> None:
    journal = journal_at(S.EMPTY, epoch=LAST_EPOCH)
    for _ in range(2):
        assert code_of(lambda: journal.initialize(ProducerIdAndEpoch(7, LAST_EPOCH))) is ErrorCode.NONE
        assert journal.instance() == ProducerIdAndEpoch(100, 0)


def test_a_v2_producer_that_missed_the_end_of_its_transaction_recovers() -> None:
    journal = journal_at(S.ONGOING, version=V2)
    before = journal.instance()
    journal.end(True, before, V2)
    journal.complete()
    assert code_of(lambda: journal.initialize(before)) is ErrorCode.NONE
    assert journal.instance() == ProducerIdAndEpoch(7, 4)


def test_producer_with_a_dropped_id_starts_over() -> None:
    journal = Journal()
    assert code_of(lambda: journal.initialize(ProducerIdAndEpoch(7, 3))) is ErrorCode.NONE
    assert journal.instance() == ProducerIdAndEpoch(100, 0)


# -- adding and verifying -------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [*AT_REST, S.ONGOING])
def test_partitions_join_the_transaction(state: TransactionState) -> None:
    journal = journal_at(state)
    journal.now_ms = NOW + 1
    journal.add(OTHER)
    assert journal.get().partitions == ({TP, OTHER} if state is S.ONGOING else {OTHER})
    assert journal.get().started_ms == (NOW if state is S.ONGOING else NOW + 1)


def test_adding_existing_entries_writes_nothing() -> None:
    journal = journal_at(S.ONGOING)
    journal.add(TP)
    assert len(journal.log) == 1


@pytest.mark.parametrize("state", DECIDED)
def test_nothing_joins_a_decided_transaction(state: TransactionState) -> None:
    journal = journal_at(state)
    assert code_of(lambda: journal.add(OTHER)) is ErrorCode.CONCURRENT_TRANSACTIONS
    with pytest.raises(KafkaError, match="CONCURRENT_TRANSACTIONS"):
        journal.shard.verify(NAME, journal.instance(), [TP])


@pytest.mark.parametrize(
    ("instance", "expected"),
    [
        (ProducerIdAndEpoch(8, 3), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ProducerIdAndEpoch(7, 2), ErrorCode.PRODUCER_FENCED),
        (ProducerIdAndEpoch(7, 4), ErrorCode.PRODUCER_FENCED),
    ],
)
@pytest.mark.parametrize("state", [S.EMPTY, S.ONGOING, S.COMPLETE_COMMIT])
def test_other_instances_are_refused(
    state: TransactionState, instance: ProducerIdAndEpoch, expected: ErrorCode
) -> None:
    journal = journal_at(state)
    assert code_of(lambda: journal.add(OTHER, instance=instance)) is expected
    assert code_of(lambda: journal.shard.verify(NAME, instance, [TP])) is expected
    assert code_of(lambda: journal.end(True, instance)) is expected
    assert len(journal.log) == 1


def test_unknown_id_is_reported() -> None:
    journal = Journal()
    unknown = ProducerIdAndEpoch(1, 1)
    assert code_of(lambda: journal.add(TP, instance=unknown)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert code_of(lambda: journal.end(True, unknown)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    with pytest.raises(KafkaError, match="INVALID_PRODUCER_ID_MAPPING"):
        journal.shard.verify(NAME, unknown, [TP])


def test_verification_returns_the_partitions_of_the_transaction() -> None:
    journal = journal_at(S.ONGOING)
    assert journal.shard.verify(NAME, journal.instance(), [TP, OTHER]) == {
        TP: ErrorCode.NONE,
        OTHER: ErrorCode.TRANSACTION_ABORTABLE,
    }


def test_epoch_that_fences_the_last_producer_is_not_assigned() -> None:
    journal = journal_at(S.EMPTY, epoch=LAST_EPOCH + 1)
    assert code_of(lambda: journal.add(TP)) is ErrorCode.PRODUCER_FENCED


# -- EndTxn -----------------------------------------------------------------------------------------------

BAD, SOON, FENCED, OK = (
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.NONE,
)


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        (S.EMPTY, BAD, BAD),
        (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT),
        (S.PREPARE_COMMIT, SOON, BAD),
        (S.PREPARE_ABORT, BAD, SOON),
        (S.COMPLETE_COMMIT, OK, BAD),
        (S.COMPLETE_ABORT, BAD, OK),
    ],
)
def test_ends_of_transactions_v1(
    state: TransactionState, commit: TransactionState | ErrorCode, abort: TransactionState | ErrorCode
) -> None:
    for committed, expected in ((True, commit), (False, abort)):
        check_end(journal_at(state), ProducerIdAndEpoch(7, 3), committed, V1, expected, epoch=3)


@pytest.mark.parametrize(
    ("state", "epoch", "commit", "abort"),
    [
        (S.EMPTY, 3, BAD, S.PREPARE_ABORT),
        (S.EMPTY, 2, FENCED, FENCED),
        (S.ONGOING, 3, S.PREPARE_COMMIT, S.PREPARE_ABORT),
        (S.ONGOING, 2, FENCED, FENCED),
        (S.PREPARE_COMMIT, 2, SOON, BAD),
        (S.PREPARE_COMMIT, 3, FENCED, FENCED),
        (S.PREPARE_ABORT, 2, BAD, SOON),
        (S.PREPARE_ABORT, 3, FENCED, FENCED),
        (S.COMPLETE_COMMIT, 2, OK, BAD),
        (S.COMPLETE_COMMIT, 3, BAD, S.PREPARE_ABORT),
        (S.COMPLETE_COMMIT, 4, FENCED, FENCED),
        (S.COMPLETE_ABORT, 2, BAD, OK),
        (S.COMPLETE_ABORT, 3, BAD, S.PREPARE_ABORT),
        (S.COMPLETE_ABORT, 1, FENCED, FENCED),
    ],
)
def test_ends_of_transactions_v2(
    state: TransactionState,
    epoch: int,
    commit: TransactionState | ErrorCode,
    abort: TransactionState | ErrorCode,
) -> None:
    for committed, expected in ((True, commit), (False, abort)):
        check_end(
            journal_at(state, version=V2), ProducerIdAndEpoch(7, epoch), committed, V2, expected, epoch=4
        )


def check_end(
    journal: Journal,
    instance: ProducerIdAndEpoch,
    committed: bool,
    version: int,
    expected: TransactionState | ErrorCode,
    epoch: int,
) -> None:
    if isinstance(expected, ErrorCode):
        assert code_of(lambda: journal.end(committed, instance, version)) is expected
        assert len(journal.log) == 1
    else:
        journal.end(committed, instance, version)
        assert (journal.get().state, journal.get().epoch) == (expected, epoch)


def test_v2_continues_with_another_producer_id_after_the_last_epoch() -> None:
    journal = journal_at(S.ONGOING, epoch=LAST_EPOCH, version=V2)
    last = journal.instance()
    journal.end(True, last, V2)
    assert journal.get().epoch == LAST_EPOCH + 1  # of the markers
    assert code_of(lambda: journal.end(True, last, V2)) is SOON
    journal.complete()
    assert journal.instance() == ProducerIdAndEpoch(100, 0)
    assert code_of(lambda: journal.end(True, last, V2)) is OK  # the answer was lost
    assert code_of(lambda: journal.end(False, last, V2)) is BAD


def test_fencing_epoch_of_the_last_producer_is_not_reused() -> None:
    journal = journal_at(S.ONGOING, epoch=LAST_EPOCH, version=V2)
    last = journal.instance()
    journal.now_ms = NOW + TIMEOUT_MS + 1
    journal.run(journal.shard.abort_timed_out(NAME, V2, journal.now_ms))
    journal.complete()
    assert journal.get().epoch == LAST_EPOCH + 1
    assert code_of(lambda: journal.end(False, last, V2)) is FENCED
    journal.initialize()
    assert journal.instance() == ProducerIdAndEpoch(100, 0)


# -- what the coordinator does by itself ------------------------------------------------------------------


def test_a_transaction_times_out_after_its_timeout_and_not_before() -> None:
    journal = journal_at(S.ONGOING)
    assert journal.shard.timed_out(NOW + TIMEOUT_MS) == []
    assert [one.transactional_id for one in journal.shard.timed_out(NOW + TIMEOUT_MS + 1)] == [NAME]
    assert journal.run(journal.shard.abort_timed_out(NAME, V1, NOW + TIMEOUT_MS)) is None
    aborted = journal.run(journal.shard.abort_timed_out(NAME, V1, NOW + TIMEOUT_MS + 1))
    assert aborted is not None
    assert (aborted.state, aborted.epoch) == (S.PREPARE_ABORT, 4)


def test_v2_producer_may_abort_a_timed_out_transaction_and_continue() -> None:
    journal = journal_at(S.ONGOING, version=V2)
    late = journal.instance()
    journal.run(journal.shard.abort_timed_out(NAME, V2, NOW + TIMEOUT_MS + 1))
    journal.complete()
    assert code_of(lambda: journal.end(True, late, V2)) is BAD
    assert code_of(lambda: journal.end(False, late, V2)) is OK
    assert journal.instance() == ProducerIdAndEpoch(7, 4)


def test_completing_a_different_outcome_has_no_effect() -> None:
    journal = journal_at(S.PREPARE_COMMIT)
    decided = journal.get()
    journal.complete()
    assert journal.run(journal.shard.complete(decided, NOW)) is None


@pytest.mark.parametrize("state", [state for state in S if state not in (S.DEAD, S.PREPARE_EPOCH_FENCE)])
def test_silent_ids_are_forgotten_unless_something_is_open(state: TransactionState) -> None:
    journal = journal_at(state)
    assert journal.run(journal.shard.expire(NOW - 1, 10)) == 0
    assert journal.run(journal.shard.expire(NOW, 10)) == (1 if state in AT_REST else 0)
    assert len(journal.shard) == len(journal.reloaded()) == (0 if state in AT_REST else 1)


def test_a_flood_of_ids_pushes_out_the_one_that_is_silent_longest() -> None:
    journal = Journal(limit=2)
    for name in ("busy", "silent"):
        journal.initialize(name=name)
    journal.add(TP, name="busy")
    journal.initialize(name="new")
    assert [one.transactional_id for one in journal.shard] == ["busy", "new"]
    assert list(journal.reloaded()) == list(journal.shard)


def test_no_id_is_pushed_out_of_its_work() -> None:
    journal = Journal(limit=1)
    journal.initialize(name="busy")
    journal.add(TP, name="busy")
    assert code_of(lambda: journal.initialize(name="new")) == ErrorCode.POLICY_VIOLATION
    assert [one.transactional_id for one in journal.shard] == ["busy"]
