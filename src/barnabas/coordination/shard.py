"""Parts of a coordinator: its records, the state that they build, and the results of operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from barnabas.common.errors import ErrorCode, KafkaError
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


# -- Results of operations: the runtime appends, replays and responds. In Kafka: CoordinatorResult and `appendFuture` --

R = TypeVar("R")
Done = Callable[[R | KafkaError], None]

PARKED: Any = object()
"""In place of a response: a later operation, or a reply of this one, answers the request."""


class Reply:
    """A response and its destination. `on_error` builds what is sent instead if the records cannot be stored."""

    __slots__ = ("on_error", "respond", "response")

    def __init__(
        self, respond: Callable[[Any], None], response: Any, on_error: Callable[[KafkaError], Any]
    ) -> None:
        self.respond = respond
        self.response = response
        self.on_error = on_error


class CoordinatorResult(Generic[R]):
    """`revert` undoes changes in memory if the records cannot be appended."""

    __slots__ = ("records", "replies", "response", "revert")

    def __init__(
        self,
        response: R,
        records: list[CoordinatorRecord] | None = None,
        replies: list[Reply] | None = None,
        revert: Callable[[], None] | None = None,
    ) -> None:
        self.response = response
        self.records = [] if records is None else records
        self.replies = [] if replies is None else replies
        self.revert = revert

    def reply_to(self, respond: Callable[[Any], None], on_error: Callable[[KafkaError], Any]) -> None:
        """Add the reply to the request itself, which comes first. A parked request without a reply stays parked."""
        if self.response is not PARKED:
            self.replies.insert(0, Reply(respond, self.response, on_error))

    def release(self, error: ErrorCode) -> None:
        """Send the replies: the records are durable, or are in the log and did not become durable in time."""
        if error:
            self._fail(KafkaError(error))
            return
        for reply in self.replies:
            reply.respond(reply.response)

    def reject(self, error: KafkaError) -> None:
        """Send errors: the records were not appended."""
        if self.revert is not None:
            self.revert()
        self._fail(error)

    def _fail(self, error: KafkaError) -> None:
        for reply in self.replies:
            reply.respond(reply.on_error(error))


class ResultBatch:
    """Results of one loop iteration, whose records are appended together."""

    __slots__ = ("records", "results", "size")

    def __init__(self) -> None:
        self.records: list[CoordinatorRecord] = []
        self.results: list[CoordinatorResult[Any]] = []
        self.size = 0

    def add(self, result: CoordinatorResult[R]) -> None:
        records = result.records
        self.records += records
        self.results.append(result)
        for key, value, _, _ in records:
            self.size += len(key) + len(value or b"")

    def release(self, error: ErrorCode) -> None:
        for result in self.results:
            result.release(error)

    def reject(self, error: KafkaError) -> None:
        for result in self.results:
            result.reject(error)


def ignore(outcome: object) -> None:
    """`done` of operations without a request."""


def same_error(error: KafkaError) -> KafkaError:
    """`Reply.on_error` of a `Done` callback."""
    return error


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
