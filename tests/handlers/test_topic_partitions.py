from typing import Any

from barnabas.cluster.image import PartitionState
from barnabas.common.errors import ErrorCode
from barnabas.controller.brokers import fence
from barnabas.controller.topics import NewTopic, create_topics
from barnabas.handlers.topic_partitions import describe_topic_partitions
from barnabas.protocol.messages.metadata import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from tests.handlers.brokers import Client


def client_with(**partitions: int) -> Client:
    client = Client(2)
    wanted = [NewTopic(name, count, 1) for name, count in partitions.items()]
    client.decide(lambda image: create_topics(image, wanted, client.broker.policy))
    return client


def ask(client: Client, *names: str, limit: int = 2000, cursor: Cursor | None = None) -> Any:
    request = DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], limit, cursor)
    return client.ask(describe_topic_partitions, request, 0)


def shown(response: Any) -> list[tuple[str, list[int]]]:
    return [
        (topic.name, [partition.partition_index for partition in topic.partitions])
        for topic in response.topics
    ]


def place(cursor: Cursor | None) -> tuple[str, int] | None:
    return None if cursor is None else (cursor.topic_name, cursor.partition_index)


def test_topics_come_in_the_order_of_their_names() -> None:
    response = ask(client_with(three=3, ok=1), "three", "ok")
    assert shown(response) == [("ok", [0]), ("three", [0, 1, 2])]
    assert response.next_cursor is None


def test_no_names_mean_all_topics() -> None:
    assert shown(ask(client_with(b=1, a=1))) == [("a", [0]), ("b", [0])]


def test_unknown_and_illegal_names_get_errors() -> None:
    response = ask(client_with(a=1), "nope", "a b", "a")
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("a", 0),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_allowed_operations_are_always_returned() -> None:
    assert ask(client_with(a=1), "a").topics[0].topic_authorized_operations == 3576


def test_a_full_page_ends_with_a_cursor_and_pages_add_up_to_everything() -> None:
    client = client_with(a=3, b=1, c=4, d=2)
    for limit in range(1, 12):
        pages: list[tuple[str, list[int]]] = []
        cursor = None
        while True:
            response = ask(client, limit=limit, cursor=cursor)
            assert sum(len(partitions) for _, partitions in shown(response)) <= limit
            pages += shown(response)
            cursor = response.next_cursor
            if cursor is None:
                break
        seen = [(name, index) for name, partitions in pages for index in partitions]
        assert seen == [
            (name, index) for name, count in zip("abcd", (3, 1, 4, 2), strict=True) for index in range(count)
        ]


def test_a_page_that_ends_with_a_topic_points_at_the_next_topic() -> None:
    client = client_with(a=2, b=1)
    response = ask(client, limit=2)
    assert (shown(response), place(response.next_cursor)) == ([("a", [0, 1])], ("b", 0))
    response = ask(client, limit=3)
    assert place(response.next_cursor) is None


def test_limit_is_between_one_and_the_maximum_of_the_broker() -> None:
    client = client_with(a=3000)
    assert shown(ask(client, limit=0)) == [("a", [0])]
    assert place(ask(client, limit=5000).next_cursor) == ("a", 2000)


def test_cursor_skips_earlier_entries() -> None:
    client = client_with(ok=3, three=3)
    assert shown(ask(client, "three", "ok", cursor=Cursor("three", 1))) == [("three", [1, 2])]


def test_cursor_may_name_a_deleted_topic_when_all_topics_are_requested() -> None:
    assert shown(ask(client_with(a=1, c=1), cursor=Cursor("b", 0))) == [("c", [0])]


def test_a_cursor_behind_a_topics_end_shows_none_of_its_partitions() -> None:
    assert shown(ask(client_with(a=1), "a", cursor=Cursor("a", 100))) == [("a", [])]


def test_a_cursor_outside_the_names_or_below_zero_is_an_invalid_request() -> None:
    client = client_with(a=1)
    for cursor in (Cursor("b", 0), Cursor("a", -1)):
        (topic,) = ask(client, "a", cursor=cursor).topics
        assert topic.error_code == ErrorCode.INVALID_REQUEST


def test_replicas_that_may_still_lead_are_shown() -> None:
    client = Client(2)
    wanted = [NewTopic("t", assignments=[(0, [2])])]
    client.decide(lambda image: create_topics(image, wanted, client.broker.policy))
    client.decide(lambda image: fence(image, 2, client.broker.policy))
    state = client.image.topics["t"].partitions[0]
    assert state == PartitionState((2,), (), -1, 1, 1, elr=(2,), last_known_elr=(2,))
    (partition,) = ask(client, "t").topics[0].partitions
    assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert partition.eligible_leader_replicas == [2]
    assert partition.last_known_elr == [2]
    assert partition.offline_replicas == [2]
