"""One step of a group: what a request or a timer has caused, collected until it can be told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.common.errors import ErrorCode
from barnabas.coordination.shard import CoordinatorRecord, coordinator_error
from barnabas.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse

Respond = Callable[[Any], None]


class CoordinatorResult:
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

    def end(self, error: ErrorCode) -> None:
        """Give the answers; if the records could not be made safe, each of them is an error."""
        code = group_error(error) if error else error
        for respond, response in self.answers:
            respond(_as_error(response, code) if code else response)


def group_error(error: ErrorCode) -> ErrorCode:
    """Kafka answers UNKNOWN_SERVER_ERROR to what is too large, which tells a client nothing."""
    return coordinator_error(error, too_large=ErrorCode.GROUP_MAX_SIZE_REACHED)


def commit_error(error: ErrorCode) -> ErrorCode:
    """The same for a commit of offsets."""
    return coordinator_error(error, too_large=ErrorCode.INVALID_COMMIT_OFFSET_SIZE)


def _as_error(response: Any, error: ErrorCode) -> Any:
    if isinstance(response, JoinGroupResponse):
        return join_error(response.member_id, error)
    if isinstance(response, SyncGroupResponse):
        return SyncGroupResponse(error_code=error)
    return type(response)(error_code=error)


def join_error(member_id: str, error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, protocol_name=None, member_id=member_id)
