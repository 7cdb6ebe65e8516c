"""The state of a share partition at the share coordinator (Kafka's ShareGroupOffset), and its updates."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import lru_cache

from barnabas.coordination import CoordinatorRecord
from barnabas.protocol.coordinator_records import encode_key, encode_versioned
from barnabas.protocol.internal_topics import NO_OFFSET, REMEMBERED_KEYS, SharePartitionKey
from barnabas.protocol.messages.records.share import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StateBatch,
)
from barnabas.share.acknowledgements import PersisterStateBatch

NO_EPOCH = -1
UNKNOWN_COUNT = -1


class StoredState:
    """Epochs: `state_epoch` rises when the offsets are reset, `leader_epoch` with the partition's leader,
    `snapshot_epoch` with every snapshot."""

    __slots__ = (
        "batches", "created_ms", "finished_count", "leader_epoch", "snapshot_epoch", "start_offset", "state_epoch",
        "updates",
    )  # fmt: skip

    def __init__(
        self,
        *,
        snapshot_epoch: int = 0,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = NO_OFFSET,
        finished_count: int = UNKNOWN_COUNT,
        batches: Iterable[PersisterStateBatch] = (),
        created_ms: int = 0,
    ) -> None:
        self.snapshot_epoch = snapshot_epoch
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.finished_count = finished_count
        self.batches = list(batches)
        self.created_ms = created_ms
        self.updates = 0
        """Number of updates since the last snapshot."""

    def copy(self) -> StoredState:
        return StoredState(
            snapshot_epoch=self.snapshot_epoch,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            finished_count=self.finished_count,
            batches=self.batches,
            created_ms=self.created_ms,
        )

    def update(
        self,
        leader_epoch: int,
        start_offset: int,
        finished_count: int,
        batches: Iterable[PersisterStateBatch],
    ) -> None:
        """Apply an update of a leader; fields that it left out do not change."""
        if leader_epoch != NO_EPOCH:
            self.leader_epoch = leader_epoch
        if start_offset != NO_OFFSET:
            self.start_offset = start_offset
        if finished_count != UNKNOWN_COUNT:
            self.finished_count = finished_count
        for batch in batches:
            overlay(self.batches, batch)
        drop_below(self.batches, self.start_offset)


def overlay(batches: list[PersisterStateBatch], new: PersisterStateBatch) -> None:
    """Overlay a batch: later batches replace earlier ones. `batches` stays sorted and free of overlaps."""
    first = bisect_left(batches, new.first, key=_last)
    behind = bisect_right(batches, new.last, lo=first, key=_first)
    pieces = [new]
    if first < behind:
        before, after = batches[first], batches[behind - 1]
        if before.first < new.first:
            pieces.insert(0, before._replace(last=new.first - 1))
        if after.last > new.last:
            pieces.append(after._replace(first=new.last + 1))
    if first and _continues(batches[first - 1], pieces[0]):
        first -= 1
        pieces.insert(0, batches[first])
    if behind < len(batches) and _continues(pieces[-1], batches[behind]):
        pieces.append(batches[behind])
        behind += 1
    batches[first:behind] = _joined(pieces)


def drop_below(batches: list[PersisterStateBatch], start: int) -> None:
    count = bisect_left(batches, start, key=_last)
    del batches[:count]
    if batches and batches[0].first < start:
        batches[0] = batches[0]._replace(first=start)


def _joined(pieces: list[PersisterStateBatch]) -> list[PersisterStateBatch]:
    joined: list[PersisterStateBatch] = []
    for piece in pieces:
        if joined and _continues(joined[-1], piece):
            joined[-1] = joined[-1]._replace(last=piece.last)
        else:
            joined.append(piece)
    return joined


def _continues(one: PersisterStateBatch, following: PersisterStateBatch) -> bool:
    return (
        one.last + 1 == following.first
        and one.state == following.state
        and one.deliveries == following.deliveries
    )


def _first(batch: PersisterStateBatch) -> int:
    return batch.first


def _last(batch: PersisterStateBatch) -> int:
    return batch.last


# -- The records of `__share_group_state`, as Apache Kafka 4.3 writes and reads them -------------------

VALUE_VERSION = 0


def snapshot_record(key: SharePartitionKey, state: StoredState, now_ms: int) -> CoordinatorRecord:
    """A snapshot with the full state; earlier records are obsolete."""
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
    batches: Iterable[PersisterStateBatch],
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


def to_batches(batches: Iterable[PersisterStateBatch]) -> list[StateBatch]:
    return [StateBatch(*batch) for batch in batches]


def from_batches(batches: Iterable[StateBatch]) -> list[PersisterStateBatch]:
    return [
        PersisterStateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in batches
    ]


@lru_cache(REMEMBERED_KEYS)
def _snapshot_key(key: SharePartitionKey) -> bytes:
    return encode_key(ShareSnapshotKey(*key))


@lru_cache(REMEMBERED_KEYS)
def _update_key(key: SharePartitionKey) -> bytes:
    return encode_key(ShareUpdateKey(*key))
