from barnabas.client.consuming.assignors import assign_in_turn, assign_ranges, assign_sticky
from barnabas.common.types import TopicPartition


def partitions(topic: str, *indexes: int) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in indexes]


def test_ranges_are_neighbours_and_the_first_members_get_the_rest() -> None:
    found = assign_ranges({"b": ["t"], "a": ["t", "u"]}, {"t": 3, "u": 1})
    assert found == {"a": partitions("t", 0, 1) + partitions("u", 0), "b": partitions("t", 2)}


def test_round_robin_skips_members_without_the_topic() -> None:
    found = assign_in_turn({"a": ["t"], "b": ["t", "u"]}, {"t": 3, "u": 2})
    assert found == {"a": partitions("t", 0, 2), "b": partitions("t", 1) + partitions("u", 0, 1)}


def test_unselected_topic_is_left_out() -> None:
    assert assign_ranges({"a": ["t"]}, {"t": 1, "u": 1}) == {"a": partitions("t", 0)}
    assert assign_in_turn({"a": ["t"]}, {"t": 1, "u": 1}) == {"a": partitions("t", 0)}


def test_sticky_withholds_moving_partitions_until_their_owner_has_revoked_them() -> None:
    subscriptions, counts = {"a": ["t"], "b": ["t"]}, {"t": 4}
    owned = {"a": partitions("t", 0, 1, 2, 3), "b": []}
    first = assign_sticky(subscriptions, counts, owned)
    assert len(first["a"]) == 2
    assert first["b"] == []
    second = assign_sticky(subscriptions, counts, first)
    assert second["a"] == first["a"]
    assert len(second["b"]) == 2


def test_sticky_gives_the_partitions_of_a_former_member_to_the_others_at_once() -> None:
    owned = {"a": partitions("t", 0), "b": partitions("t", 1)}
    found = assign_sticky({"a": ["t"], "b": ["t"]}, {"t": 4}, owned)
    assert sorted(found["a"] + found["b"]) == partitions("t", 0, 1, 2, 3)
    assert set(owned["a"]) < set(found["a"])
    assert set(owned["b"]) < set(found["b"])
