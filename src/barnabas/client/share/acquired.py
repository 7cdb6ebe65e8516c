"""Records that a member of a share group has acquired, and how it acknowledges them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

from barnabas.client.opening import ConsumedRecord, check_batch
from barnabas.common.errors import KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.share import AcknowledgementBatch, AcquiredRecords
from barnabas.records import iterate_records
from barnabas.records.batch import iterate_headers


class AcknowledgeType(IntEnum):
    """The acknowledge types of the protocol."""

    GAP = 0  # no record at this offset
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AcquiredRecord(NamedTuple):
    """Record locked for this member until the lock expires. The delivery count includes this delivery."""

    record: ConsumedRecord
    delivery_count: int

    @property
    def tp(self) -> TopicPartition:
        return self.record.tp

    @property
    def offset(self) -> int:
        return self.record.offset


class Refusal(NamedTuple):
    """Rejected acknowledgements: too late, or for records of another member."""

    tp: TopicPartition
    offsets: tuple[int, ...]
    error: KafkaError


Answers = dict[int, AcknowledgeType]
"""Acknowledgements of one partition, by offset."""


def open_acquired(
    tp: TopicPartition, batches: memoryview, acquired: Iterable[AcquiredRecords]
) -> tuple[list[AcquiredRecord], Answers]:
    """Acquired records, and a GAP acknowledgement for every acquired offset without a record."""
    counts = {
        offset: span.delivery_count
        for span in acquired
        for offset in range(span.first_offset, span.last_offset + 1)
    }
    taken = [
        AcquiredRecord(record, counts.pop(record.offset))
        for record in _records(tp, batches)
        if record.offset in counts
    ]
    return taken, dict.fromkeys(counts, AcknowledgeType.GAP)


def _records(tp: TopicPartition, batches: memoryview) -> Iterator[ConsumedRecord]:
    for start, header in iterate_headers(batches):
        batch = batches[start : start + header.size]
        check_batch(tp, batch, header)
        if not header.is_control:
            for record in iterate_records(batch, header):
                yield ConsumedRecord(tp.topic, tp.partition, *record)


def to_batches(answers: Answers) -> list[AcknowledgementBatch]:
    """Merge adjacent offsets with the same acknowledgement type into batches."""
    ordered = sorted(answers.items())
    if not ordered:
        return []
    batches = [_batch(*ordered[0])]
    for (before, last), (offset, answer) in pairwise(ordered):
        if offset == before + 1 and answer == last:
            batches[-1].last_offset = offset
        else:
            batches.append(_batch(offset, answer))
    return batches


def _batch(offset: int, answer: AcknowledgeType) -> AcknowledgementBatch:
    return AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=[int(answer)])
