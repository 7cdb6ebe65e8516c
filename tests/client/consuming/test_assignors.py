from barnabas.client.consuming.classic import assign_in_turn, assign_ranges
from barnabas.common.types import TopicPartition


def partitions(topic: str, *indexes: int) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in indexes]


def test_ranges_are_neighbours_and_the_first_members_get_the_rest() -> None:
    found = assign_ranges({"b": ["t"], "a": ["t", "u"]}, {"t": 3, "u": 1})
    assert found == {"a": partitions("t", 0, 1) + partitions("u", 0), "b": partitions("t", 2)}


def test_in_turn_passes_over_members_that_do_not_want_the_topic() -> None:
    found = assign_in_turn({"a": ["t"], "b": ["t", "u"]}, {"t": 3, "u": 2})
    assert found == {"a": partitions("t", 0, 2), "b": partitions("t", 1) + partitions("u", 0, 1)}


def test_a_topic_that_nobody_wants_is_left_out() -> None:
    assert assign_ranges({"a": ["t"]}, {"t": 1, "u": 1}) == {"a": partitions("t", 0)}
    assert assign_in_turn({"a": ["t"]}, {"t": 1, "u": 1}) == {"a": partitions("t", 0)}
