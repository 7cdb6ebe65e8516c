"""A request with many share partitions does not block other requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from barnabas.handlers.share.state import ASKED_AT_ONCE, delete_state
from barnabas.protocol.messages.share_state import DeleteShareGroupStatePartitionData as PartitionData
from barnabas.protocol.messages.share_state import (
    DeleteShareGroupStateRequest,
    DeleteStateData,
)


def test_partitions_are_requested_in_several_iterations_and_answered_together() -> None:
    requested: list[int] = []
    later: deque[Callable[[], None]] = deque()
    answers: list[Any] = []

    def delete(key: Any, done: Callable[[None], None]) -> None:
        requested.append(key.partition)
        done(None)

    broker: Any = SimpleNamespace(
        coordinators=SimpleNamespace(shares=SimpleNamespace(delete=delete)),
        call_soon=lambda function, *args: later.append(lambda: function(*args)),
    )
    count = 2 * ASKED_AT_ONCE + 1
    topics = [
        DeleteStateData(topic_id=b"x" * 16, partitions=[PartitionData(partition=n) for n in range(count)])
    ]
    request: Any = SimpleNamespace(respond=answers.append)
    delete_state(broker, request, DeleteShareGroupStateRequest(group_id="g", topics=topics))
    assert len(requested) == ASKED_AT_ONCE
    assert not answers
    while later:
        later.popleft()()
    (response,) = answers
    assert [each.partition for each in response.results[0].partitions] == list(range(count))


def test_a_request_without_partitions_is_answered_at_once() -> None:
    answers: list[Any] = []
    broker: Any = SimpleNamespace(call_soon=None)
    delete_state(broker, SimpleNamespace(respond=answers.append), DeleteShareGroupStateRequest(group_id="g"))  # type: ignore[arg-type]
    assert answers[0].results == []
