"""The share coordinator's state machine: one partition of `__share_group_state` (Kafka's
ShareCoordinatorShard).

The leader of a share partition reads its state when it starts, and writes each change. Two epochs fence
others: the
leader epoch an old leader, the state epoch a leader that missed a reset. Updates are deltas; after a number
of them a
snapshot is written, and the log before the newest snapshots of all partitions can be deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import NamedTuple

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.common.types import Uuid
from barnabas.coordination import CoordinatorRecord, CoordinatorResult, ProducerIdAndEpoch
from barnabas.protocol.coordinator_records import (
    SHARE_RECORDS,
    UnknownRecordTypeError,
    decode_key,
    decode_value,
)
from barnabas.protocol.internal_topics import NO_OFFSET, SharePartitionKey
from barnabas.protocol.messages.records.share import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from barnabas.records import Record
from barnabas.share.acknowledgements import PersisterStateBatch
from barnabas.share.stored_state import (
    NO_EPOCH,
    UNKNOWN_COUNT,
    StoredState,
    from_batches,
    snapshot_record,
    tombstone,
    update_record,
)

logger = rate_limited_logger(__name__)

# Snapshots of unused partitions are rewritten only if that frees at least this many records for each.
MIN_UPDATES_FOR_SNAPSHOT = 10


class StateWrite(NamedTuple):
    """A state change by a leader."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    finished_count: int
    batches: Sequence[PersisterStateBatch]


class ShareStateShard:
    def __init__(
        self,
        knows_partition: Callable[[SharePartitionKey], bool],
        now_ms: Callable[[], int],
        updates_per_snapshot: int,
    ) -> None:
        self._knows_partition = knows_partition
        self._now_ms = now_ms
        self._updates_per_snapshot = updates_per_snapshot
        self._states: dict[SharePartitionKey, StoredState] = {}
        self._snapshot_offsets: dict[SharePartitionKey, int] = {}
        self._in_turn: set[SharePartitionKey] = (
            set()
        )  # written in this turn of the loop, and not replayed yet

    def __len__(self) -> int:
        return len(self._states)

    def get(self, key: SharePartitionKey) -> StoredState | None:
        return self._states.get(key)

    # -- requests -----------------------------------------------------------------------------------

    def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int
    ) -> CoordinatorResult[None]:
        """Initialize, or reset, to an offset; -1 leaves the choice to the first leader."""
        self._check_partition(key)
        _check_offset(start_offset)
        known = self._states.get(key)
        if known is not None and state_epoch != NO_EPOCH and state_epoch < known.state_epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH, "The state epoch is lower than the stored one.")
        now_ms = self._now_ms()
        fresh = StoredState(
            snapshot_epoch=known.snapshot_epoch + 1 if known is not None else 0,
            state_epoch=state_epoch,
            start_offset=start_offset,
            finished_count=0 if start_offset != NO_OFFSET else UNKNOWN_COUNT,
            created_ms=now_ms,
        )
        return CoordinatorResult(None, [snapshot_record(key, fresh, now_ms)])

    def read(self, key: SharePartitionKey, leader_epoch: int) -> CoordinatorResult[StoredState]:
        """Read the state; a read by a newer leader fences the older ones."""
        known = self._initialized(key, "Read")
        _check_leader(known, leader_epoch)
        seen = known.copy()
        if leader_epoch <= known.leader_epoch:
            return CoordinatorResult(seen)
        seen.leader_epoch = leader_epoch
        record = self._to_record(key, known, leader_epoch, NO_OFFSET, UNKNOWN_COUNT, ())
        return CoordinatorResult(seen, [record])

    def summary(self, key: SharePartitionKey) -> StoredState:
        """The state for a summary: fences no leader; a partition without state is not an error."""
        self._check_partition(key)
        known = self._states.get(key)
        return known if known is not None else StoredState()

    def write(self, key: SharePartitionKey, state_write: StateWrite) -> CoordinatorResult[None]:
        known = self._initialized(key, "Write")
        _check_offset(state_write.start_offset)
        _check_leader(known, state_write.leader_epoch)
        if state_write.state_epoch != NO_EPOCH and state_write.state_epoch < known.state_epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH, "The state epoch is lower than the stored one.")
        # A leader becomes known only by a read, and must read before it writes.
        record = self._to_record(
            key,
            known,
            known.leader_epoch,
            state_write.start_offset,
            state_write.finished_count,
            state_write.batches,
        )
        self._in_turn.add(key)
        return CoordinatorResult(None, [record], revert=lambda: self._in_turn.discard(key))

    def delete(self, key: SharePartitionKey) -> CoordinatorResult[None]:
        self._check_partition(key)
        return CoordinatorResult(None, [tombstone(key)] if key in self._states else [])

    def forget_topics(self, topic_ids: Set[Uuid]) -> CoordinatorResult[None]:
        """Remove the state of deleted topics."""
        records = [tombstone(key) for key in self._states if key.topic_id in topic_ids]
        return CoordinatorResult(None, records)

    def _initialized(self, key: SharePartitionKey, verb: str) -> StoredState:
        known = self._states.get(key)
        if known is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{verb} operation on uninitialized share partition not allowed."
            )
        self._check_partition(key)
        return known

    def _check_partition(self, key: SharePartitionKey) -> None:
        if key.partition < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The partition index must not be negative.")
        if not self._knows_partition(key):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _to_record(
        self,
        key: SharePartitionKey,
        known: StoredState,
        leader_epoch: int,
        start_offset: int,
        finished_count: int,
        batches: Sequence[PersisterStateBatch],
    ) -> CoordinatorRecord:
        # A snapshot needs the full state; updates of this loop iteration are not replayed yet.
        if known.updates < self._updates_per_snapshot or key in self._in_turn:
            return update_record(
                key, known.snapshot_epoch, leader_epoch, start_offset, finished_count, batches
            )
        fresh = known.copy()
        fresh.update(leader_epoch, start_offset, finished_count, batches)
        fresh.snapshot_epoch += 1
        return snapshot_record(key, fresh, self._now_ms())

    # -- log retention -----------------------------------------------------------------------------

    def renew_old_snapshots(self, log_end: int, limit: int) -> CoordinatorResult[None]:
        """Rewrite snapshots of unused partitions, so that the log before them can be deleted."""
        oldest = log_end - MIN_UPDATES_FOR_SNAPSHOT * (len(self._states) + 1)
        old = [key for key, offset in self._snapshot_offsets.items() if offset < oldest][:limit]
        records = []
        for key in old:
            fresh = self._states[key].copy()
            fresh.snapshot_epoch += 1
            records.append(snapshot_record(key, fresh, self._now_ms()))
        return CoordinatorResult(None, records)

    def first_needed_offset(self, log_end: int) -> int:
        return min(self._snapshot_offsets.values(), default=log_end)

    # -- replaying ----------------------------------------------------------------------------------

    def replay(self, record: Record, producer: ProducerIdAndEpoch | None) -> None:
        try:
            key = decode_key(SHARE_RECORDS, record.key)
        except UnknownRecordTypeError as error:
            logger.warning("skipping offset %d of __share_group_state: %s", record.offset, error)
            return
        value = None if record.value is None else decode_value(SHARE_RECORDS, key, record.value)
        share = SharePartitionKey(key.group_id, key.topic_id, key.partition)
        self._in_turn.discard(share)
        if isinstance(key, ShareSnapshotKey):
            self._replay_snapshot(share, value, record.offset)
        elif isinstance(key, ShareUpdateKey) and isinstance(value, ShareUpdateValue):
            self._replay_update(share, value)

    def _replay_snapshot(self, key: SharePartitionKey, value: object, offset: int) -> None:
        if not isinstance(value, ShareSnapshotValue):
            self._states.pop(key, None)
            self._snapshot_offsets.pop(key, None)
            return
        self._states[key] = StoredState(
            snapshot_epoch=value.snapshot_epoch,
            state_epoch=value.state_epoch,
            leader_epoch=value.leader_epoch,
            start_offset=value.start_offset,
            finished_count=value.delivery_complete_count,
            batches=from_batches(value.state_batches),
            created_ms=value.create_timestamp,
        )
        self._snapshot_offsets[key] = offset

    def _replay_update(self, key: SharePartitionKey, value: ShareUpdateValue) -> None:
        known = self._states.get(key)
        if known is None:
            return  # its snapshot was deleted, and the update was written in the same loop iteration
        known.update(
            value.leader_epoch,
            value.start_offset,
            value.delivery_complete_count,
            from_batches(value.state_batches),
        )
        known.updates += 1

    def complete_transaction(self, producer: ProducerIdAndEpoch, *, committed: bool) -> None:
        """Nothing to do: records of `__share_group_state` are never transactional."""

    def loaded(self) -> None:
        """Nothing to do: this shard has no timers."""

    def unloaded(self) -> None:
        """Nothing to do: no request waits here."""


def _check_offset(start_offset: int) -> None:
    """Raise for an offset out of range: lag computed from it would not fit into a response."""
    if start_offset < NO_OFFSET:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Invalid start offset {start_offset}; -1 leaves it open."
        )


def _check_leader(known: StoredState, leader_epoch: int) -> None:
    if leader_epoch != NO_EPOCH and leader_epoch < known.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, "Another leader has read or written this state.")
