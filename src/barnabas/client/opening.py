"""Decodes fetched batches: verifies CRCs and skips control batches and aborted records."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.client.fetching import FetchedPartition
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.records import AbortedTransactions, Header, iterate_records
from barnabas.records.batch import BatchHeader, crc_is_right, iterate_headers


class ConsumedRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class Opened(NamedTuple):
    records: list[ConsumedRecord]
    next_offset: int  # next fetch offset, beyond markers and compacted gaps


def open_batches(fetched: FetchedPartition, *, committed_only: bool) -> Opened:
    """The records at or after the fetch offset (a batch may begin before it)."""
    topic, index = fetched.partition
    aborted = AbortedTransactions(fetched.aborted if committed_only else ())
    records: list[ConsumedRecord] = []
    position = fetched.fetch_offset
    for start, header in iterate_headers(fetched.records):
        batch = fetched.records[start : start + header.size]
        check_batch(fetched.partition, batch, header)
        if aborted.hide(batch, header):
            position = max(position, header.next_offset)
            continue
        records += [
            ConsumedRecord(topic, index, *record)
            for record in iterate_records(batch, header)
            if record.offset >= position
        ]
        position = max(position, header.next_offset)
    return Opened(records, position)


def check_batch(partition: TopicPartition, batch: memoryview, header: BatchHeader) -> None:
    if not crc_is_right(batch, 0, header.size):
        text = f"the batch at offset {header.base_offset} of {partition} is damaged (its CRC is wrong)"
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, text)
