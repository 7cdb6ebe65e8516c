"""Batches that have no producer yet: a task may write one in its transaction, or hand it to its driver."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.records.batch import (
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    write_crc,
)
from barnabas.records.builder import NO_LEADER_EPOCH, encode_record
from barnabas.records.record import Record
from barnabas.common.types import TopicPartition


@dataclass(slots=True)
class Block:
    """`data` keeps room for the header in front of the records."""

    topic: str
    partition: int
    data: bytearray
    count: int
    attributes: int
    base_timestamp: int
    max_timestamp: int

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def seal(
        self,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        *,
        transactional: bool = False,
    ) -> bytearray:
        """The batch as it goes over the wire; written in place, so that the last call counts."""
        header = BatchHeader(
            base_offset=0,
            length=len(self.data) - LOG_OVERHEAD,
            leader_epoch=NO_LEADER_EPOCH,
            magic=MAGIC,
            crc=0,
            attributes=self.attributes | (TRANSACTIONAL_BIT if transactional else 0),
            last_offset_delta=self.count - 1,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=self.count,
        )
        HEADER.pack_into(self.data, 0, *header)
        write_crc(self.data, 0, len(self.data))
        return self.data


def block_of(place: TopicPartition, record: Record) -> Block:
    """A block of one record."""
    data = bytearray(HEADER_SIZE)
    data += encode_record(0, 0, record)
    return Block(place.topic, place.partition, data, 1, 0, record.timestamp, record.timestamp)
