"""Requests split into parts and joined responses, without a server."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from barnabas.common.errors import ErrorCode
from barnabas.network.requests.request_parts import ALL, TWICE, cut_at, deduplicated, in_chunks, slices
from barnabas.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.security.context import SELF

TOPICS = cut_at(
    ("topics", "topics", ("name",)), ("partitions", "partitions", ("partition_index",)), repeats=ALL
)
GROUPS = cut_at(
    ("groups", "groups", ("group_id",)),
    ("topics", "topics", ("name", "topic_id")),
    ("partition_indexes", "partitions"),
)


class Asked:
    """Request attributes used by handlers."""

    context, connection, is_large, is_abandoned = SELF, None, False, False
    answered_nothing = False

    def __init__(self, version: int = 11) -> None:
        self.version = version
        self.route = SimpleNamespace(version=version)

    def respond_nothing(self) -> None:
        self.answered_nothing = True


def topic(name: str, *partitions: int) -> ListOffsetsTopic:
    return ListOffsetsTopic(
        name=name, partitions=[ListOffsetsPartition(partition_index=p) for p in partitions]
    )


def shape(topics: Any) -> list[tuple[str, list[int]]]:
    return [(each.name, [partition.partition_index for partition in each.partitions]) for each in topics]


def echo(broker: list[int], request: Any, message: ListOffsetsRequest) -> ListOffsetsResponse:
    """Echoes the request; `broker` records the number of partitions per part."""
    broker.append(sum(len(topic.partitions) for topic in message.topics))
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
                    for wanted in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )


def test_arrays_in_arrays_are_cut_where_they_are_too_large() -> None:
    items = [topic("a", 0), topic("b", *range(7)), topic("c", 0), topic("d", 0)]
    parts = [shape(part) for part in slices(items, TOPICS.levels[1:], 4)]
    assert parts == [
        [("a", [0])],
        [("b", [0, 1, 2, 3])],
        [("b", [4, 5, 6])],
        [("c", [0]), ("d", [0])],
    ]


def test_parts_are_answered_as_one_and_split_arrays_are_joined() -> None:
    message = ListOffsetsRequest(topics=[topic("a", 0), topic("b", *range(7)), topic("c", 0)])
    parts: list[int] = []
    request: Any = Asked()
    handle = in_chunks(echo, TOPICS, of=4)
    response: Any = asyncio.run(handle(parts, request, message))  # type: ignore[arg-type]
    assert parts == [1, 4, 3, 1]
    assert shape(response.topics) == shape(message.topics)
    assert request.is_large


def test_a_small_request_is_passed_on_as_it_is() -> None:
    message = ListOffsetsRequest(topics=[topic("a", 0), topic("a", 0)])
    parts: list[int] = []
    request: Any = Asked()
    response: Any = in_chunks(echo, TOPICS, of=4)(parts, request, message)
    assert shape(response.topics) == [("a", [0]), ("a", [0])]
    assert not request.is_large


def test_duplicate_keys_are_merged() -> None:
    def group(name: str, topics: list[OffsetFetchRequestTopics] | None) -> OffsetFetchRequestGroup:
        return OffsetFetchRequestGroup(group_id=name, topics=topics)

    def wanted(name: str, *indexes: int) -> OffsetFetchRequestTopics:
        return OffsetFetchRequestTopics(name=name, partition_indexes=list(indexes))

    groups = [
        group("g", [wanted("a", 0, 1), wanted("b", 5), wanted("a", 1, 2)]),
        group("all", [wanted("a", 0)]),
        group("g", [wanted("a", 3, 0)]),
        group("all", None),
    ]
    first, second = deduplicated(groups, GROUPS)
    assert first.topics is not None
    assert [(each.name, each.partition_indexes) for each in first.topics] == [("a", [0, 1, 2, 3]), ("b", [5])]
    assert second.topics is None


def test_names_that_may_not_be_repeated_come_to_the_handler_twice_and_together() -> None:
    seen: list[list[str]] = []

    def delete(broker: Any, request: Any, message: DeleteTopicsRequest) -> DeleteTopicsResponse:
        seen.append(message.topic_names)
        return DeleteTopicsResponse(
            responses=[DeletableTopicResult(name=name) for name in dict.fromkeys(message.topic_names)]
        )

    request: Any = Asked(5)
    handle = in_chunks(delete, cut_at(("topic_names", "responses"), repeats=TWICE), of=3)
    names = ["a", "b", "c", "a", "d", "a", "a"]
    response: Any = asyncio.run(handle(None, request, DeleteTopicsRequest(topic_names=names)))  # type: ignore[arg-type]
    assert seen == [["a", "a", "b"], ["c", "d"]]
    assert [result.name for result in response.responses] == ["a", "b", "c", "d"]


def test_a_part_that_is_refused_as_a_whole_speaks_for_all() -> None:
    def refuse(broker: Any, request: Any, message: OffsetDeleteRequest) -> OffsetDeleteResponse:
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)

    partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in range(9)]
    message = OffsetDeleteRequest(topics=[OffsetDeleteRequestTopic(name="t", partitions=partitions)])
    request: Any = Asked(0)
    response: Any = asyncio.run(in_chunks(refuse, TOPICS, of=4)(None, request, message))  # type: ignore[arg-type]
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert response.topics == []


def test_parts_may_answer_later_and_in_any_order() -> None:
    waiting: list[tuple[Any, ListOffsetsResponse]] = []

    def later(broker: list[int], request: Any, message: ListOffsetsRequest) -> None:
        waiting.append((request, echo(broker, request, message)))
        if len(waiting) == 3:
            for part, response in reversed(waiting):
                part.respond(response)

    message = ListOffsetsRequest(topics=[topic("b", *range(12))])
    request: Any = Asked()
    response: Any = asyncio.run(in_chunks(later, TOPICS, of=4)([], request, message))  # type: ignore[arg-type]
    assert shape(response.topics) == [("b", list(range(12)))]


def test_a_request_that_wants_no_answer_gets_none() -> None:
    def silent(broker: Any, request: Any, message: ListOffsetsRequest) -> None:
        request.respond_nothing()

    request: Any = Asked()
    message = ListOffsetsRequest(topics=[topic("b", *range(12))])
    assert asyncio.run(in_chunks(silent, TOPICS, of=4)(None, request, message)) is None  # type: ignore[arg-type]
    assert request.answered_nothing
