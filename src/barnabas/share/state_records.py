"""The records of `__share_group_state`, as Apache Kafka 4.3 writes and reads them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from barnabas.coordination.shard import CoordinatorRecord
from barnabas.protocol.coordinator_records import encode_key, encode_versioned
from barnabas.protocol.internal_topics import REMEMBERED_KEYS, SharePartitionKey
from barnabas.protocol.messages.records.share import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StateBatch,
)
from barnabas.share.changes import Stored
from barnabas.share.stored_state import StoredState

VALUE_VERSION = 0


def snapshot_record(key: SharePartitionKey, state: StoredState, now_ms: int) -> CoordinatorRecord:
    """All that is known; what came before is not needed any more."""
    value = ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.finished_count,
        create_timestamp=state.created_ms,
        write_timestamp=now_ms,
        state_batches=to_batches(state.batches),
    )
    return CoordinatorRecord(_snapshot_key(key), encode_versioned(value, VALUE_VERSION))


def update_record(
    key: SharePartitionKey,
    snapshot_epoch: int,
    leader_epoch: int,
    start_offset: int,
    finished_count: int,
    batches: Iterable[Stored],
) -> CoordinatorRecord:
    value = ShareUpdateValue(
        snapshot_epoch=snapshot_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=finished_count,
        state_batches=to_batches(batches),
    )
    return CoordinatorRecord(_update_key(key), encode_versioned(value, VALUE_VERSION))


def tombstone(key: SharePartitionKey) -> CoordinatorRecord:
    return CoordinatorRecord(_snapshot_key(key), None)


def to_batches(batches: Iterable[Stored]) -> list[StateBatch]:
    return [StateBatch(*batch) for batch in batches]


def from_batches(batches: Iterable[StateBatch]) -> list[Stored]:
    return [
        Stored(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in batches
    ]


@lru_cache(REMEMBERED_KEYS)
def _snapshot_key(key: SharePartitionKey) -> bytes:
    return encode_key(ShareSnapshotKey(*key))


@lru_cache(REMEMBERED_KEYS)
def _update_key(key: SharePartitionKey) -> bytes:
    return encode_key(ShareUpdateKey(*key))
