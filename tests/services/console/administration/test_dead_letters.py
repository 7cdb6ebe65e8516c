"""Dead letters by reason, and dead-letter topics."""

from __future__ import annotations

import pytest

from barnabas.client.share.dead_letters import DeadLetter
from barnabas.common.types import TopicPartition
from barnabas.services.console.errors import BadInputError
from barnabas.services.console.pages.cluster.dead_letters import filter_of, is_named_so, reasons_of


def letter(offset: int, reason: str, group: str = "billing") -> DeadLetter:
    tp, origin = TopicPartition("dlq.jobs", 0), TopicPartition("jobs", 1)
    return DeadLetter(tp, offset, 1000 + offset, origin, offset, group, 5, reason, b"k", b"v", ())


@pytest.mark.parametrize(
    "name", ["dlq.jobs", "jobs.dlq", "logs.dead-letters", "DeadLetters", "x_dead_letter_2"]
)
def test_topics_are_known_by_their_names(name: str) -> None:
    assert is_named_so(name)


@pytest.mark.parametrize("name", ["orders", "deadline", "dlqueue", "undead-lettering"])
def test_other_topics_are_not(name: str) -> None:
    assert not is_named_so(name)


def test_equal_dead_letters_are_counted_together() -> None:
    found = reasons_of([letter(1, "rejected"), letter(2, "too often"), letter(3, "rejected")])
    assert [(each.reason, each.count, each.first_ms, each.last_ms) for each in found] == [
        ("rejected", 2, 1001, 1003),
        ("too often", 1, 1002, 1002),
    ]


def test_a_filter_by_key_is_refused_where_something_is_masked() -> None:
    assert filter_of(["key=k", " "], masked=False)(letter(1, "rejected"))
    with pytest.raises(BadInputError, match="masked"):
        filter_of(["key=k"], masked=True)
    with pytest.raises(BadInputError, match="FIELD=PATTERN"):
        filter_of(["colour=red"], masked=False)
