"""The records of `__consumer_offsets`, in the versions that Apache Kafka 4.3 writes."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from barnabas.coordination.shard import CoordinatorRecord, Effect
from barnabas.protocol.coordinator_records import REBALANCE_REASON_HEADER, encode_key, encode_versioned
from barnabas.protocol.internal_topics import REMEMBERED_KEYS
from barnabas.protocol.messages.records.group import OffsetCommitKey, OffsetCommitValue

if TYPE_CHECKING:
    from barnabas.groups.offsets import Committed
    from barnabas.records.record import Header
    from barnabas.common.types import TopicPartition

OFFSET_VERSION = 4
OFFSET_VERSION_WITH_EXPIRY = 1  # the only one that knows when a client wanted its offset dropped

LONGEST_REASON = 2000


def reason_headers(text: str) -> tuple[Header, ...]:
    """Why there is a new generation or a new epoch, for the record that says so."""
    return ((REBALANCE_REASON_HEADER, text[:LONGEST_REASON].encode()),) if text else ()


def offset_record(
    group_id: str, place: TopicPartition, committed: Committed, effect: Effect
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
    return CoordinatorRecord(_offset_key(group_id, place), encode_versioned(value, version), effect=effect)


def offset_tombstone(group_id: str, place: TopicPartition) -> CoordinatorRecord:
    return CoordinatorRecord(_offset_key(group_id, place), None)


@lru_cache(REMEMBERED_KEYS)
def _offset_key(group_id: str, place: TopicPartition) -> bytes:
    return encode_key(OffsetCommitKey(group=group_id, topic=place.topic, partition=place.partition))
