from __future__ import annotations

import pytest

from barnabas.services.console.logs.query import (
    BadQueryError,
    Cursor,
    Term,
    read_cursor,
    read_levels,
    read_text,
)


def test_words_and_phrases_must_all_be_there_and_those_with_a_minus_must_not() -> None:
    assert read_text('pay "did not answer" -retry -"a b" x-y', is_pattern=False) == (
        Term("pay"),
        Term("did not answer"),
        Term("retry", False),
        Term("a b", False),
        Term("x-y"),
    )


@pytest.mark.parametrize(
    ("pattern", "column"),
    [("a(b", 2), ("ab[z", 3), ("a**", 2), ("ab)c", 3), (r"(a\)[)]", 1), ("x{2,1}", 2), ("a\\", 2)],
)
def test_a_bad_pattern_is_refused_with_its_column(pattern: str, column: int) -> None:
    with pytest.raises(BadQueryError) as refused:
        read_text(pattern, is_pattern=True)
    assert refused.value.column == column
    assert f"column {column}" in str(refused.value)


def test_a_quote_that_is_not_closed_is_refused_with_its_column() -> None:
    with pytest.raises(BadQueryError, match=r"column 3"):
        read_text('a "b c', is_pattern=False)


@pytest.mark.parametrize("find", ["x" * 5000, "a " * 40, "(a{1,100}){1,100}"])
def test_expensive_requests_are_rejected(find: str) -> None:
    with pytest.raises(BadQueryError):
        read_text(find, is_pattern=find.startswith("("))


def test_an_unknown_level_is_refused_with_those_that_there_are() -> None:
    assert read_levels("") is None
    with pytest.raises(BadQueryError, match="levels are none, trace"):
        read_levels("error,loud")


def test_a_cursor_can_be_sent_and_read_again() -> None:
    assert read_cursor(str(Cursor(5, 7))) == Cursor(5, 7)
    with pytest.raises(BadQueryError):
        read_cursor("five")
