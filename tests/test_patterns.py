"""What a pattern of a client may cost."""

from __future__ import annotations

import time

import pytest

from barnabas.patterns import LARGEST_PROGRAM, PatternError, compile_for_long_texts, compile_pattern

LONGEST_NAME = "a" * 32_767


def test_a_pattern_for_long_texts_has_a_bounded_program() -> None:
    costly = "(.*a.{400})*c"
    assert compile_pattern(costly).programsize > LARGEST_PROGRAM
    with pytest.raises(PatternError, match="instructions"):
        compile_for_long_texts(costly)


@pytest.mark.parametrize("pattern", ["(a|aa)*b", "(.*a.{90})*c", "orders-[0-9]+|payments-.*"])
def test_what_is_allowed_takes_little_time_for_the_longest_name(pattern: str) -> None:
    compiled = compile_for_long_texts(pattern)
    begin = time.thread_time()
    compiled.fullmatch(LONGEST_NAME)
    assert time.thread_time() - begin < 0.05
