"""One step of a group: what a request or a timer has caused, collected until it can be told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.coordination.shard import CoordinatorRecord
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse

Respond = Callable[[Any], None]


class Step:
    """Records to append, and the answers to give once they are safe: one request may free many that wait.

    `undo` puts back what the step has changed in memory when its records cannot be appended.
    """

    __slots__ = ("answers", "records", "undo")

    def __init__(self) -> None:
        self.records: list[CoordinatorRecord] = []
        self.answers: list[tuple[Respond, Any]] = []
        self.undo: Callable[[], None] | None = None

    def answer(self, respond: Respond, response: Any) -> None:
        self.answers.append((respond, response))

    def give(self) -> None:
        for respond, response in self.answers:
            respond(response)

    def refuse(self, error: ErrorCode) -> None:
        """The records are not safe: everybody who would have been answered is told so instead."""
        code = coordinator_error(error)
        for respond, response in self.answers:
            respond(_as_error(response, code))


def coordinator_error(error: ErrorCode) -> ErrorCode:
    """What a client is told when the internal topic cannot be written, so that it tries the right thing next."""
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
        return (
            ErrorCode.GROUP_MAX_SIZE_REACHED
        )  # Kafka: UNKNOWN_SERVER_ERROR, from which nobody learns anything
    return error


def commit_error(error: ErrorCode) -> ErrorCode:
    """The same for a commit of offsets."""
    if error in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
        return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    return coordinator_error(error)


def _as_error(response: Any, error: ErrorCode) -> Any:
    if isinstance(response, JoinGroupResponse):
        return join_error(response.member_id, error)
    if isinstance(response, SyncGroupResponse):
        return SyncGroupResponse(error_code=error)
    return type(response)(error_code=error)


def join_error(member_id: str, error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, protocol_name=None, member_id=member_id)
