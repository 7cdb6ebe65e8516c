import pytest

from barnabas.common.suggestions import closest, closest_by_trigrams, did_you_mean

KNOWN = ["retention.ms", "retention.bytes", "segment.bytes", "topic"]


@pytest.mark.parametrize(
    ("name", "match"), [("retenton.ms", "retention.ms"), ("topik", "topic"), ("xyzzy", None), ("", None)]
)
def test_the_most_similar_name_is_found(name: str, match: str | None) -> None:
    assert closest(name, KNOWN) == match


def test_a_higher_cutoff_needs_more_similarity() -> None:
    assert closest("topping", KNOWN) == "topic"
    assert closest("topping", KNOWN, cutoff=0.7) is None


def test_names_may_come_from_an_iterator() -> None:
    assert closest("topik", iter(KNOWN)) == "topic"
    assert closest("topik", iter(())) is None


def test_a_message_ends_with_the_suggestion_if_there_is_one() -> None:
    assert (
        f"unknown key 'topik'{did_you_mean('topik', KNOWN)}" == "unknown key 'topik'; did you mean `topic`?"
    )
    assert did_you_mean("xyzzy", KNOWN) == ""


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("retension.ms", "retention.ms"),
        ("segments.bytes", "segment.bytes"),
        ("xyzzy", None),
        ("retention.ms" * 9, None),  # too long to be a typing error
    ],
)
def test_trigrams_find_a_name_with_an_error(name: str, match: str | None) -> None:
    assert closest_by_trigrams(name, KNOWN) == match


def test_trigrams_of_no_names_match_nothing() -> None:
    assert closest_by_trigrams("topic", []) is None
    assert closest_by_trigrams("", []) is None
