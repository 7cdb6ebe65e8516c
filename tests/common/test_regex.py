"""Cost of client patterns."""

from __future__ import annotations

import time

import pytest

from barnabas.common.regex import PatternError, compile_for_long_texts, compile_pattern, limits

MAX_NAME = "a" * 32_767


def test_a_pattern_for_long_texts_has_a_bounded_program() -> None:
    costly = "(.*a.{400})*c"
    assert compile_pattern(costly).programsize > limits.instructions
    with pytest.raises(PatternError, match="instructions"):
        compile_for_long_texts(costly)


@pytest.mark.parametrize("pattern", [r"\pL" * 1365, r"[^\PL]" * 600, r"(?i)" + r"\pL" * 1000])
def test_a_pattern_that_is_much_too_large_is_refused_soon(pattern: str) -> None:
    taken = []
    for _ in range(3):
        begin = time.thread_time()
        with pytest.raises(PatternError):
            compile_pattern(pattern)
        taken.append(time.thread_time() - begin)
    assert min(taken) < 0.015


@pytest.mark.parametrize("pattern", ["(a|aa)*b", "(.*a.{90})*c", "orders-[0-9]+|payments-.*"])
def test_allowed_patterns_are_fast_for_the_longest_name(pattern: str) -> None:
    compiled = compile_for_long_texts(pattern)
    begin = time.thread_time()
    compiled.fullmatch(MAX_NAME)
    assert time.thread_time() - begin < 0.05


def test_pattern_size_is_limited_by_a_setting_and_rejections_are_counted() -> None:
    before = limits.refused
    usual = limits.characters, limits.memory, limits.instructions
    limits.use(characters=20, memory=1 << 14, instructions=10)
    try:
        for pattern in ("a" * 21, "(a{50}){50}", "("):
            with pytest.raises(PatternError):
                compile_pattern(pattern)
        with pytest.raises(PatternError, match=r"barnabas\.regex\.max\.instructions"):
            compile_for_long_texts("abcdefghijklmno")
    finally:
        limits.use(characters=usual[0], memory=usual[1], instructions=usual[2])
    assert limits.refused == before + 4
