"""The records that consumer, share and streams groups have in common, each under keys of its own.

A type of group is declared once by the classes of its keys and values; the functions are those of
GroupCoordinatorRecordHelpers, ShareGroup- and StreamsCoordinatorRecordHelpers in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from barnabas.coordination.shard import CoordinatorRecord
from barnabas.groups.modern import Assignment
from barnabas.groups.records import reason_headers
from barnabas.protocol.coordinator_records import encode_key, encode_versioned
from barnabas.protocol.schema import Message

VERSION = 0
"""All of these records have one version."""

Make = Callable[..., Message]


def record(key: Message, value: Message, reason: str = "") -> CoordinatorRecord:
    return CoordinatorRecord(encode_key(key), encode_versioned(value, VERSION), reason_headers(reason))


def tombstone(key: Message) -> CoordinatorRecord:
    return CoordinatorRecord(encode_key(key), None)


class MemberKeys(NamedTuple):
    """The keys of a member's records."""

    metadata: Make
    target: Make
    current: Make

    def tombstones(self, group_id: str, member_id: str) -> list[CoordinatorRecord]:
        """In this order: a reader that meets the last of them must have removed everything else."""
        return [
            tombstone(make(group_id=group_id, member_id=member_id))
            for make in (self.current, self.target, self.metadata)
        ]


class PartitionGroupRecords(NamedTuple):
    """The records of a type of group whose members get partitions."""

    epoch_key: Make
    epoch_value: Make
    target_epoch_key: Make
    target_epoch_value: Make
    target_key: Make
    target_value: Make
    topic_partition: Callable[..., Any]

    def epoch_record(self, group_id: str, epoch: int, metadata_hash: int, reason: str) -> CoordinatorRecord:
        value = self.epoch_value(epoch=epoch, metadata_hash=metadata_hash)
        return record(self.epoch_key(group_id=group_id), value, reason)

    def target_epoch_record(self, group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
        value = self.target_epoch_value(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
        return record(self.target_epoch_key(group_id=group_id), value)

    def target_record(self, group_id: str, member_id: str, target: Assignment) -> CoordinatorRecord:
        partitions = [
            self.topic_partition(topic_id=topic, partitions=sorted(indexes))
            for topic, indexes in target.items()
        ]
        key = self.target_key(group_id=group_id, member_id=member_id)
        return record(key, self.target_value(topic_partitions=partitions))
