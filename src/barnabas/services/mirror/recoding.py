"""Batches of the source as batches that a target numbers for itself: committed records, each with its provenance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from barnabas.client.opening import check_batch
from barnabas.services.mirror.partition import Payload
from barnabas.records.batch import iterate_headers
from barnabas.records.builder import build_batch, largest_encoded_size
from barnabas.records.control import AbortedTransactions
from barnabas.records.record import Record, iterate_records
from barnabas.common.types import TopicPartition

PROVENANCE = "barnabas.mirror"
"""The header's value is CLUSTER/TOPIC/PARTITION/OFFSET of the first source."""
MOST_BYTES = 900 * 1024
"""Of the records of a batch, so that with their new headers they stay below Kafka's `max.message.bytes`."""


@dataclass(slots=True)
class RecodedBatch:
    """Waits for the id of the mirror's producer."""

    place: TopicPartition
    records: list[Record]
    codec: int

    @property
    def count(self) -> int:
        return len(self.records)

    def seal(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool
    ) -> bytearray:
        return build_batch(
            self.records,
            compression=self.codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
        )


def recode(payload: Payload, target: TopicPartition, cluster: str) -> Iterator[RecodedBatch]:
    """InvalidRecords for what is no batch; CORRUPT_MESSAGE for one that was damaged."""
    aborted = AbortedTransactions(payload.aborted)
    origin = f"{cluster}/{payload.place.topic}/{payload.place.partition}/"
    for start, header in iterate_headers(payload.records):
        batch = payload.records[start : start + header.size]
        check_batch(payload.place, batch, header)
        if aborted.hide(batch, header):
            continue
        records = [
            _with_provenance(record, origin)
            for record in iterate_records(batch, header)
            if record.offset >= payload.first
        ]
        for part in _split(records) if not header.compression else (records,):
            if part:
                yield RecodedBatch(target, list(part), header.compression)


def _with_provenance(record: Record, origin: str) -> Record:
    """A record that has come further keeps the name of its first source."""
    for name, _ in record.headers:
        if name == PROVENANCE:
            return record
    value = f"{origin}{record.offset}".encode()
    return Record(
        record.offset, record.timestamp, record.key, record.value, (*record.headers, (PROVENANCE, value))
    )


def _split(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    first = size = 0
    for index, record in enumerate(records):
        needed = largest_encoded_size(record)
        if index > first and size + needed > MOST_BYTES:
            yield records[first:index]
            first, size = index, 0
        size += needed
    yield records[first:]
