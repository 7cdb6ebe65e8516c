"""Result of one step of a group: the records and replies of a request or a timer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.common.errors import ErrorCode
from barnabas.coordination import CoordinatorRecord, coordinator_error
from barnabas.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse

Respond = Callable[[Any], None]


class CoordinatorResult:
    """Records to append, and replies to send once they are durable: one request may complete many parked ones.

    `undo` reverts the in-memory changes of the step if its records cannot be appended.
    """

    __slots__ = ("answers", "records", "undo")

    def __init__(self) -> None:
        self.records: list[CoordinatorRecord] = []
        self.answers: list[tuple[Respond, Any]] = []
        self.undo: Callable[[], None] | None = None

    def answer(self, respond: Respond, response: Any) -> None:
        self.answers.append((respond, response))

    def end(self, error: ErrorCode) -> None:
        """Send the replies; if the records could not be made durable, each of them is an error."""
        code = group_error(error) if error else error
        for respond, response in self.answers:
            respond(_as_error(response, code) if code else response)


def group_error(error: ErrorCode) -> ErrorCode:
    """Replace UNKNOWN_SERVER_ERROR, Kafka's answer to records that are too large, by an error clients understand."""
    return coordinator_error(error, too_large=ErrorCode.GROUP_MAX_SIZE_REACHED)


def commit_error(error: ErrorCode) -> ErrorCode:
    """The same for an offset commit."""
    return coordinator_error(error, too_large=ErrorCode.INVALID_COMMIT_OFFSET_SIZE)


def _as_error(response: Any, error: ErrorCode) -> Any:
    if isinstance(response, JoinGroupResponse):
        return join_error(response.member_id, error)
    if isinstance(response, SyncGroupResponse):
        return SyncGroupResponse(error_code=error)
    return type(response)(error_code=error)


def join_error(member_id: str, error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, protocol_name=None, member_id=member_id)
