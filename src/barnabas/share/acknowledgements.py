"""What a request says of records, checked as far as that needs nothing but the request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple, Protocol

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.share.states import Acknowledgement

_TYPES = frozenset(Acknowledgement)


class AcknowledgementBatch(Protocol):
    """As ShareFetch and ShareAcknowledge carry it: one type for all offsets, or one for each."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


class Range(NamedTuple):
    """Neighbouring records of which the same is said."""

    first: int
    last: int
    said: Acknowledgement


def read_acknowledgements(batches: Sequence[AcknowledgementBatch], *, renewing: bool) -> list[Range]:
    """The ranges of a partition in a request; KafkaError (INVALID_REQUEST) when they make no sense."""
    ranges: list[Range] = []
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


def _ranges(batch: AcknowledgementBatch) -> Iterable[Range]:
    first = batch.first_offset
    if len(batch.acknowledge_types) == 1:
        yield Range(first, batch.last_offset, Acknowledgement(batch.acknowledge_types[0]))
        return
    for said, same in groupby(batch.acknowledge_types):
        last = first + len(list(same)) - 1
        yield Range(first, last, Acknowledgement(said))
        first = last + 1


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
