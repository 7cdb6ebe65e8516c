"""Opens fetched batches: checks them, leaves out markers and aborted records, gives out the rest."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from barnabas.client.fetching import FetchedPartition
from barnabas.errors import ErrorCode, KafkaError
from barnabas.records.batch import BatchHeader, crc_is_right, iterate_headers
from barnabas.records.control import parse_end_transaction
from barnabas.records.record import Header, iterate_records
from barnabas.types import TopicPartition


class ConsumedRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class Opened(NamedTuple):
    records: list[ConsumedRecord]
    next_offset: int  # where to go on, beyond markers and compacted gaps


def open_batches(fetched: FetchedPartition, *, committed_only: bool) -> Opened:
    """The records at or after the fetch offset (a batch may begin before it)."""
    topic, index = fetched.partition
    aborted = AbortedTransactions(fetched.aborted if committed_only else ())
    records: list[ConsumedRecord] = []
    position = fetched.fetch_offset
    for start, header in iterate_headers(fetched.records):
        batch = fetched.records[start : start + header.size]
        _check(fetched.partition, batch, header)
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


class AbortedTransactions:
    """Knows, while the log goes by in order, whose records are inside a transaction that was aborted."""

    def __init__(self, aborted: tuple[tuple[int, int], ...]) -> None:
        self._coming = deque(aborted)
        self._open: set[int] = set()

    def hide(self, batch: memoryview, header: BatchHeader) -> bool:
        """Whether a consumer must not see the batch: it is a marker, or was aborted."""
        while self._coming and self._coming[0][1] <= header.last_offset:
            self._open.add(self._coming.popleft()[0])
        if header.is_control:
            self._end(batch, header)
            return True
        return header.is_transactional and header.producer_id in self._open

    def _end(self, batch: memoryview, header: BatchHeader) -> None:
        for record in iterate_records(batch, header):
            if parse_end_transaction(record) is not None:
                self._open.discard(header.producer_id)


def _check(partition: TopicPartition, batch: memoryview, header: BatchHeader) -> None:
    if not crc_is_right(batch, 0, header.size):
        text = f"the batch at offset {header.base_offset} of {partition} is damaged (its CRC is wrong)"
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, text)
