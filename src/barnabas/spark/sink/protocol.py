"""Exactly-once delivery, as programs without I/O: they yield steps and receive the results.

    Claim    InitProducerId of the driver's id: fences an earlier claim
    Read     the sink's state, after a claim: it cannot change unnoticed
    ReadUnclaimed     the same without a claim, and whether a write of another driver is in progress
    Write    the state, and rows that tasks handed over, in one transaction of the driver; Fenced if another claimed
    Check    outcome of transactions
    Commit   EndTxn, until the coordinators acknowledge it; may be repeated
    Abort    InitProducerId of tasks' ids: ends open transactions and fences their producers
    Open     the open transactions of tasks, found by the names of their ids
    Store    rows that tasks handed over, in a transaction that is left open like a task's

Claim, Read, Write is a compare-and-set of the state: a write succeeds only if no other driver has claimed since the
read. All guarantees depend on it. A batch is in the topics once, because

1. it is decided by one write, which lists its transactions (or carries all of its rows);
2. a driver that finds a decision finishes it first, and a decided batch is not written again;
3. only decided transactions are committed, and only two parties could abort them: the process that wrote them, which
   has ended its task (`names.py`), and later batches and runs, which finish first;
4. cleanup ends transactions only of runs in which nothing can be decided any more.

A program may be killed between any two steps. `tests/spark/sink/test_protocol.py` does so at all of them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, TypeVar

from barnabas.spark.sink.state import NO_BATCH, SinkState, TaskTransaction

T = TypeVar("T")
Steps = Generator["Step", Any, T]

CLAIMS = 5  # attempts while another driver claims concurrently


class SinkTransactionResult(Enum):
    """Outcome of a transaction."""

    OPEN = auto()
    COMMITTED = auto()
    LOST = auto()  # aborted: it timed out, or another process ended it
    UNKNOWN = auto()  # the coordinator has forgotten the id


class TornBatchPolicy(Enum):
    """The user's choice for a batch of which a part is lost."""

    FAIL = "fail"
    SKIP = "skip"
    RERUN = "rerun"


# -- steps ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClaimSink:
    """-> None. Unless `fresh`, an earlier claim of this process is reused: writing detects if it was fenced."""

    fresh: bool = True


@dataclass(frozen=True, slots=True)
class Read:
    """-> SinkState"""


@dataclass(frozen=True, slots=True)
class ReadUnclaimed:
    """-> (SinkState, whether it is settled)"""


@dataclass(frozen=True, slots=True)
class Write:
    """-> None, or SinkFencedError. Without a state, the sink is forgotten."""

    state: SinkState | None
    rows: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckParts:
    """-> list[Outcome], one for each part"""

    parts: tuple[TaskTransaction, ...]


@dataclass(frozen=True, slots=True)
class CommitParts:
    """-> list[Outcome], one for each part: committed, or lost"""

    parts: tuple[TaskTransaction, ...]


@dataclass(frozen=True, slots=True)
class Abort:
    """-> None"""

    transactional_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Open:
    """-> list[(transactional id, run)]"""


@dataclass(frozen=True, slots=True)
class StoreBatch:
    """-> TaskTransaction"""

    batch: Batch


Step = ClaimSink | Read | ReadUnclaimed | Write | CheckParts | CommitParts | Abort | Open | StoreBatch


class SinkFencedError(Exception):
    """Another driver has claimed the sink."""


class SinkError(Exception):
    """The query stops. The message describes the state of the batch and what to do."""


class SupersededError(SinkError):
    """Another run of the query owns the sink."""


class LostBatchError(SinkError):
    """Nothing of the batch is in the topics: it can be run again."""


class TornBatchError(SinkError):
    """A part of the batch is in the topics and the rest is lost."""


# -- programs -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ticket:
    """Information for the tasks of a batch."""

    run: int
    decided: Mapping[str, int] = field(default_factory=dict)  # the last batch of every query

    def has(self, query: str, batch: int) -> bool:
        return batch <= self.decided.get(query, NO_BATCH)


@dataclass(frozen=True, slots=True)
class Batch:
    """Results of the tasks of a batch."""

    number: int
    query: str
    run: int
    parts: tuple[TaskTransaction, ...] = ()
    rows: tuple[Any, ...] = ()
    start: str = ""  # of the query: each has another one, and fails with its first batch that does
    is_last: bool = False  # no batch follows: a job outside of a query


def plan(owner: str, torn: TornBatchPolicy = TornBatchPolicy.FAIL) -> Steps[Ticket]:
    """Before the tasks of a batch start: finish decided batches, end open transactions."""
    state, settled = yield ReadUnclaimed()
    if settled and state.owner == owner and not state.pending:
        return _ticket(state)
    for _ in range(CLAIMS):
        yield ClaimSink()
        state = yield Read()
        try:
            return (yield from _take_over(state, owner, torn))
        except SinkFencedError:
            continue
    raise _superseded()


def _take_over(state: SinkState, owner: str, torn: TornBatchPolicy) -> Steps[Ticket]:
    if state.pending:
        state = yield from _finish(state, torn)
    if state.owner != owner:
        state = state.taken_over(owner)
        yield Write(state)
        # From here on no earlier run can decide anything: its open transactions can be aborted.
        yield from sweep(state.run - 1)
    return _ticket(state)


def _ticket(state: SinkState) -> Ticket:
    return Ticket(state.run, state.all_decided())


def commit(batch: Batch) -> Steps[None]:
    """All tasks have succeeded: decide the batch and commit it."""
    if batch.rows and batch.parts:
        # Rows written with the decision could not be withdrawn with it.
        part = yield StoreBatch(batch)
        batch = replace(batch, parts=(*batch.parts, part), rows=())
    for attempt in range(CLAIMS):
        yield ClaimSink(fresh=attempt > 0)
        state = yield Read()
        if state.run != batch.run and attempt == 0:
            continue  # under a claim from before, which another process of this driver may have replaced since
        try:
            return (yield from _decide(state, batch))
        except SinkFencedError:
            continue
    raise _superseded()


def _decide(state: SinkState, batch: Batch) -> Steps[None]:
    if batch.run != state.run or batch.start in state.replaced:
        yield from _abandon(batch.parts, state)
        raise _superseded()
    if state.has(batch.query, batch.number):
        yield from _abandon(batch.parts, state)
        if state.pending:
            yield from _finish(state)
        return
    if state.pending:
        state = yield from _finish(state)
    if not batch.parts:
        done = state.with_decision(batch.query, batch.number, (), batch.start).completed()
        yield Write(None if batch.is_last else done, batch.rows)
        return
    outcomes = yield CheckParts(batch.parts)
    if any(outcome is not SinkTransactionResult.OPEN for outcome in outcomes):
        yield from _abandon(batch.parts, state)
        raise _lost(batch.number)
    state = state.with_decision(batch.query, batch.number, batch.parts, batch.start)
    yield Write(state)
    yield from _carry_out(state, batch.parts, forget=batch.is_last)


def abort(owner: str, start: str = "", parts: tuple[TaskTransaction, ...] = ()) -> Steps[None]:
    """A task has failed, or the query was stopped: end the open transactions of this driver's tasks.

    `parts` are those of tasks that have ended well, and `start` what they say; unknown if none has.
    """
    state, settled = yield ReadUnclaimed()
    if settled and state.owner == owner and start in state.replaced:
        yield from _abandon(parts, state)  # what else is open may be of the query that came after
    elif settled and state.owner == owner:
        yield from _tidy_up(state)


def tidy(run: int) -> Steps[None]:
    """No task of this run is needed any more: end open transactions of tasks that Spark has abandoned."""
    state, settled = yield ReadUnclaimed()
    if settled and state.run == run:
        yield from _tidy_up(state)


def give_up(run: int) -> Steps[None]:
    """A job has failed that may be retried: the retry commits what was decided by then."""
    state, settled = yield ReadUnclaimed()
    if settled:
        yield from sweep(run, state.pending)


def _tidy_up(state: SinkState) -> Steps[None]:
    """End open transactions of this run and earlier ones. If this run has any, end the run first: another query may
    appear as the same owner and decide an open transaction between the check and its end."""
    found = [(name, run) for name, run in (yield Open()) if run <= state.run]
    if any(run == state.run for _, run in found) and not (yield from _end_run(state)):
        found = [(name, run) for name, run in found if run < state.run]
    if found:
        yield Abort(tuple(name for name, _ in found))


def _end_run(seen: SinkState) -> Steps[bool]:
    """After this, nothing can be decided in that run; the owner continues in the next one."""
    yield ClaimSink()
    state = yield Read()
    if (state.run, state.owner) != (seen.run, seen.owner) or state.pending:
        return False  # another driver is active, or has a pending decision
    try:
        yield Write(state.taken_over(state.owner))
    except SinkFencedError:
        return False
    return True


def sweep(last_run: int, keep: Iterable[TaskTransaction] = ()) -> Steps[None]:
    """End open transactions of tasks of these runs: consumers with read_committed wait for them."""
    kept = {part.transactional_id for part in keep}
    found = yield Open()
    left = tuple(name for name, run in found if run <= last_run and name not in kept)
    if left:
        yield Abort(left)


def _finish(state: SinkState, torn: TornBatchPolicy = TornBatchPolicy.FAIL) -> Steps[SinkState]:
    """Commit a pending decision, or withdraw it if none of it was committed."""
    outcomes = yield CheckParts(state.pending)
    if SinkTransactionResult.LOST not in outcomes and SinkTransactionResult.UNKNOWN not in outcomes:
        return (yield from _carry_out(state, state.pending))
    is_torn = SinkTransactionResult.COMMITTED in outcomes or SinkTransactionResult.UNKNOWN in outcomes
    if is_torn and torn is TornBatchPolicy.FAIL:
        yield from _stop(state, outcomes)
    if is_torn and torn is TornBatchPolicy.SKIP:
        left = tuple(
            p for p, o in zip(state.pending, outcomes, strict=True) if o is SinkTransactionResult.OPEN
        )
        return (yield from _carry_out(state, left))
    return (yield from _withdraw(state))


def _carry_out(
    state: SinkState, parts: tuple[TaskTransaction, ...], *, forget: bool = False
) -> Steps[SinkState]:
    outcomes = (yield CommitParts(parts)) if parts else []
    if all(outcome is SinkTransactionResult.COMMITTED for outcome in outcomes):
        done = state.completed()
        yield Write(None if forget else done)
        return done
    if SinkTransactionResult.COMMITTED in outcomes or SinkTransactionResult.UNKNOWN in outcomes:
        yield from _stop(state, outcomes)
    yield from _withdraw(state)
    raise _lost(state.decided)


def _stop(state: SinkState, outcomes: list[SinkTransactionResult]) -> Steps[None]:
    """Only the holder of the claim may decide this: to others, transactions that a successor has reused look lost."""
    yield Write(state)
    raise _torn(state, outcomes)


def _withdraw(state: SinkState) -> Steps[SinkState]:
    # First the decision: the next driver must not find one with half of its transactions aborted.
    back = state.withdrawn()
    yield Write(back)
    yield Abort(tuple(part.transactional_id for part in state.pending))
    return back


def _abandon(parts: tuple[TaskTransaction, ...], state: SinkState) -> Steps[None]:
    left = tuple(part.transactional_id for part in parts if part not in state.pending)
    if left:
        yield Abort(left)


# -- error messages ---------------------------------------------------------------------------------------


def _superseded() -> SupersededError:
    return SupersededError(
        "another run of this query, or another query with the same sinkId, has taken over the sink: this one "
        "stops, and nothing of its current batch is in the topics. If both are meant to run, give each a sinkId"
    )


def ended_elsewhere() -> SinkError:
    return SinkError(
        "the transaction of a task was ended while the task wrote: another run of this query, or another query with "
        "the same sinkId, has the sink, or an administrator ended it. Nothing of the batch is in the topics. If two "
        "queries are meant to run, give each a sinkId; then start this one again"
    )


def _lost(batch: int) -> LostBatchError:
    return LostBatchError(
        f"transactions of batch {batch} were aborted before they could be committed (they timed out, or an "
        "administrator ended them). Nothing of the batch is in the topics: restart the query, and it is "
        "written again"
    )


def _torn(state: SinkState, outcomes: list[SinkTransactionResult]) -> TornBatchError:
    committed = [
        p.transactional_id
        for p, o in zip(state.pending, outcomes, strict=True)
        if o is SinkTransactionResult.COMMITTED
    ]
    lost = [
        p.transactional_id
        for p, o in zip(state.pending, outcomes, strict=True)
        if o is not SinkTransactionResult.COMMITTED
    ]
    return TornBatchError(
        f"batch {state.decided} is only partly in the topics: the transactions "
        f"{', '.join(committed) or '(none known)'} were committed, and {', '.join(lost)} were aborted by the broker "
        "before they could be: they were open for longer than its transaction.max.timeout.ms, or an administrator "
        "ended them. The sink does not guess: remove or complete the batch's rows, then set the option tornBatch to "
        "skip (the batch counts as written) or rerun (it is written again, whole)"
    )
