import pytest

from barnabas.cluster.names import check_topic_name, collision_index, collision_key, topic_name_error
from barnabas.common.errors import ErrorCode, KafkaError


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "...", "a" * 249, "__consumer_offsets", "-"])
def test_legal_names_pass(name: str) -> None:
    assert topic_name_error(name) is None


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a" * 250, "a b", "a/b", "ä", "a\n", "a\0", "\u0661", "a:b", "%"]
)
def test_illegal_names_are_refused_with_a_reason(name: str) -> None:
    with pytest.raises(KafkaError) as caught:
        check_topic_name(name)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_names_that_differ_in_dots_and_underscores_only_collide() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c")
    assert collision_index(["a.b", "plain"]) == {"a_b": "a.b"}
