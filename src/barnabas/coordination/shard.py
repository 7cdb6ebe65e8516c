"""Parts of a coordinator: its records, and the state that they build."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from barnabas.common.errors import ErrorCode
from barnabas.records import Header, Record


class ProducerIdAndEpoch(NamedTuple):
    """One producer instance. Records of its transaction are pending until the transaction is complete."""

    producer_id: int
    epoch: int


Effect = Callable[[int, ProducerIdAndEpoch | None], None]


class CoordinatorRecord(NamedTuple):
    """One state change as written to the internal topic; without a value, a tombstone.

    `effect` does what a replay of the record would do, given its offset and producer: it saves the hot
    path from
    decoding what it has just encoded.
    """

    key: bytes
    value: bytes | None
    headers: tuple[Header, ...] = ()
    effect: Effect | None = None


class Shard(Protocol):
    """The state of one partition of an internal topic."""

    def replay(self, record: Record, producer: ProducerIdAndEpoch | None) -> None:
        """Apply one record. Records of a producer are pending until its transaction is complete."""
        ...

    def complete_transaction(self, producer: ProducerIdAndEpoch, *, committed: bool) -> None: ...

    def loaded(self) -> None:
        """Start timers: the whole log has been replayed."""
        ...

    def unloaded(self) -> None:
        """Stop timers and drop waiting requests: another broker coordinates from now on."""
        ...


def coordinator_error(error: ErrorCode, *, too_large: ErrorCode) -> ErrorCode:
    """Map an append error of the internal topic to the error that makes the client do the right thing next.

    `too_large`: the error for a request whose records do not fit into a batch.
    """
    if error in (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    ):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR):
        return ErrorCode.NOT_COORDINATOR
    if error in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
        return too_large
    return error
