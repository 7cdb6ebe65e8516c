"""What a coordinator consists of: records, and the state that they build."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from barnabas.common.errors import ErrorCode
from barnabas.records.record import Header, Record


class ProducerIdAndEpoch(NamedTuple):
    """One instance of a producer. Records of its transaction are pending until that is complete."""

    producer_id: int
    epoch: int


Effect = Callable[[int, ProducerIdAndEpoch | None], None]


class CoordinatorRecord(NamedTuple):
    """One change of state, as it stands in the internal topic; without a value it is a tombstone.

    `effect` does what a replay of the record would do, given its offset and producer: it spares the
    hot path from decoding what it has just encoded.
    """

    key: bytes
    value: bytes | None
    headers: tuple[Header, ...] = ()
    effect: Effect | None = None


class Shard(Protocol):
    """The state that one partition of an internal topic holds."""

    def replay(self, record: Record, producer: ProducerIdAndEpoch | None) -> None:
        """Take over one record. Those of a producer are pending until its transaction is complete."""
        ...

    def complete_transaction(self, producer: ProducerIdAndEpoch, *, committed: bool) -> None: ...

    def loaded(self) -> None:
        """The whole log has been replayed: timers may start."""
        ...

    def unloaded(self) -> None:
        """Another broker coordinates from now on: timers stop, and nothing waits here any longer."""
        ...


def coordinator_error(error: ErrorCode, *, too_large: ErrorCode) -> ErrorCode:
    """What is answered when the internal topic cannot be written, so that the client tries the right thing next.
    `too_large`: the answer to a request whose records do not fit into a batch."""
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
