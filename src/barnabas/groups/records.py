"""The records of `__consumer_offsets`, in the versions that Apache Kafka 4.3 writes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.coordination import CoordinatorRecord, Effect
from barnabas.groups.modern import Assignment
from barnabas.protocol.coordinator_records import REBALANCE_REASON_HEADER, encode_key, encode_versioned
from barnabas.protocol.internal_topics import REMEMBERED_KEYS
from barnabas.protocol.messages.records.group import OffsetCommitKey, OffsetCommitValue
from barnabas.protocol.schema import Message

if TYPE_CHECKING:
    from barnabas.common.types import TopicPartition
    from barnabas.groups.offsets import Committed
    from barnabas.records import Header


OFFSET_VERSION = 4
OFFSET_VERSION_WITH_EXPIRY = 1  # the only version with an expiry time chosen by the client

MAX_REASON = 2000


def reason_headers(text: str) -> tuple[Header, ...]:
    """The reason of a new generation or epoch, as headers of its record."""
    return ((REBALANCE_REASON_HEADER, text[:MAX_REASON].encode()),) if text else ()


def offset_record(
    group_id: str, tp: TopicPartition, committed: Committed, effect: Effect
) -> CoordinatorRecord:
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_ms,
        expire_timestamp=committed.expire_ms,
        topic_id=committed.topic_id,
    )
    version = OFFSET_VERSION if committed.expire_ms < 0 else OFFSET_VERSION_WITH_EXPIRY
    return CoordinatorRecord(_offset_key(group_id, tp), encode_versioned(value, version), effect=effect)


def offset_tombstone(group_id: str, tp: TopicPartition) -> CoordinatorRecord:
    return CoordinatorRecord(_offset_key(group_id, tp), None)


@lru_cache(REMEMBERED_KEYS)
def _offset_key(group_id: str, tp: TopicPartition) -> bytes:
    return encode_key(OffsetCommitKey(group=group_id, topic=tp.topic, partition=tp.partition))


# -- Records of consumer, share and streams groups; the fields are equal, the keys differ -----------------

VERSION = 0
"""All of these records have one version."""

Make = Callable[..., Message]


def record(key: Message, value: Message, reason: str = "") -> CoordinatorRecord:
    return CoordinatorRecord(encode_key(key), encode_versioned(value, VERSION), reason_headers(reason))


def tombstone(key: Message) -> CoordinatorRecord:
    return CoordinatorRecord(encode_key(key), None)


class MemberKeys(NamedTuple):
    """Keys of a member's records."""

    metadata: Make
    target: Make
    current: Make

    def tombstones(self, group_id: str, member_id: str) -> list[CoordinatorRecord]:
        """Tombstones in this order: a reader of the last one must already have removed the others."""
        return [
            tombstone(make(group_id=group_id, member_id=member_id))
            for make in (self.current, self.target, self.metadata)
        ]


class PartitionGroupRecords(NamedTuple):
    """Records of a group type whose members own partitions."""

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
