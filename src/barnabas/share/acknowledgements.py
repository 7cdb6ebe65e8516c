"""Acknowledgement ranges of a request, validated from the request alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple, Protocol

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.share.runs import Acknowledgement, InFlightBatch, RecordState

# -- Changes of records that are not stored yet --------------------------------------------------------

Done = Callable[[KafkaError | None], None]


class PersisterStateBatch(NamedTuple):
    """A batch of `__share_group_state` (Kafka's PersisterStateBatch): offsets in one state."""

    first: int
    last: int
    state: int
    deliveries: int


class Before(NamedTuple):
    """State of a run before a change, to restore it if the write fails."""

    run: InFlightBatch
    state: RecordState


class ShareStateChange:
    """One decision. `held` runs do not change until it is stored; then `done` is called."""

    __slots__ = ("batches", "done", "held")

    def __init__(self, done: Done | None = None) -> None:
        self.batches: list[PersisterStateBatch] = []
        self.held: list[Before] = []
        self.done = done

    def add(self, run: InFlightBatch) -> None:
        self.batches.append(PersisterStateBatch(run.first, run.last, run.state, run.count))

    def hold(self, run: InFlightBatch, state: RecordState) -> None:
        """Change the run to `state`; the change is final only when it is stored."""
        self.held.append(Before(run, run.state))
        run.state = state
        run.change = self
        self.add(run)


class ShareStateWrite(NamedTuple):
    """One write to the share coordinator: the start of the window, and the changes above it."""

    start_offset: int
    finished_count: int
    batches: list[PersisterStateBatch]
    changes: list[ShareStateChange]


def clipped(changes: Iterable[ShareStateChange], start: int) -> list[PersisterStateBatch]:
    """The batches of some changes that are not below the start."""
    return [
        batch._replace(first=max(batch.first, start))
        for change in changes
        for batch in change.batches
        if batch.last >= start
    ]


_TYPES = frozenset(Acknowledgement)


class AcknowledgementBatch(Protocol):
    """The batch in ShareFetch and ShareAcknowledge: one type for all offsets, or one per offset."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


class AcknowledgedRange(NamedTuple):
    """Consecutive records with the same acknowledgement."""

    first: int
    last: int
    said: Acknowledgement


def read_acknowledgements(
    batches: Sequence[AcknowledgementBatch], *, renewing: bool
) -> list[AcknowledgedRange]:
    """The ranges of a partition in a request; KafkaError (INVALID_REQUEST) if they are inconsistent."""
    ranges: list[AcknowledgedRange] = []
    before = -1
    for batch in batches:
        _check(batch, before, renewing)
        before = batch.last_offset
        ranges += _ranges(batch)
    return ranges


def _check(batch: AcknowledgementBatch, before: int, renewing: bool) -> None:
    first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
    if first > last:
        raise _invalid(f"Invalid acknowledgement batch: {first} is beyond {last}.")
    if first < before:
        raise _invalid(f"Acknowledgement batches must be in order; {first} comes after {before}.")
    if first == before:
        raise KafkaError(ErrorCode.INVALID_RECORD_STATE, f"The record {first} is acknowledged twice.")
    if not types:
        raise _invalid(f"The acknowledgement of {first} to {last} has no type.")
    if len(types) not in (1, last - first + 1):
        raise _invalid(f"{len(types)} acknowledgement types for the offsets {first} to {last}.")
    if not _TYPES.issuperset(types):
        raise _invalid("Acknowledgement types are 0 (gap), 1 accept, 2 release, 3 reject and 4 renew.")
    if Acknowledgement.RENEW in types and not renewing:
        raise _invalid("Renewing needs a request that says so (IsRenewAck).")


def _ranges(batch: AcknowledgementBatch) -> Iterable[AcknowledgedRange]:
    first = batch.first_offset
    if len(batch.acknowledge_types) == 1:
        yield AcknowledgedRange(first, batch.last_offset, Acknowledgement(batch.acknowledge_types[0]))
        return
    for acknowledgement, same in groupby(batch.acknowledge_types):
        last = first + len(list(same)) - 1
        yield AcknowledgedRange(first, last, Acknowledgement(acknowledgement))
        first = last + 1


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
