"""Batches without a producer id: a Spark task writes one in its transaction, or returns it to its driver."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.common.types import TopicPartition
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


@dataclass(slots=True)
class Block:
    """Encoded records of one partition; `data` reserves room for the batch header in front of them."""

    topic: str
    partition: int
    data: bytearray
    count: int
    attributes: int
    base_timestamp: int
    max_timestamp: int

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def seal(
        self,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        *,
        transactional: bool = False,
    ) -> bytearray:
        """Write the batch header in place and return the batch. A later call overwrites the header."""
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


def block_of(tp: TopicPartition, record: Record) -> Block:
    """A block of one record."""
    data = bytearray(HEADER_SIZE)
    data += encode_record(0, 0, record)
    return Block(tp.topic, tp.partition, data, 1, 0, record.timestamp, record.timestamp)
