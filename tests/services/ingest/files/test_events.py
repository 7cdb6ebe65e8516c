"""Lines and events in bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.regex import compile_pattern
from barnabas.services.ingest.files.events import Events, join_lines, separate_too_long, split_lines


def test_a_line_without_a_newline_waits_unless_the_file_is_final() -> None:
    assert split_lines(b"a\nbc", 10, final=False) == Events([b"a"], [10], 12)
    assert split_lines(b"a\nbc", 10, final=True) == Events([b"a", b"bc"], [10, 12], 14)
    assert split_lines(b"bc", 10, final=False) == Events([], [], 10)
    assert split_lines(b"", 10, final=True) == Events([], [], 10)


def test_windows_lines_lose_their_carriage_return_and_places_count_it() -> None:
    assert split_lines(b"a\r\n\r\nb\n", 0, final=False) == Events([b"a", b"", b"b"], [0, 3, 5], 7)


@given(st.binary(max_size=200).map(lambda data: data.replace(b"\r", b"")), st.integers(0, 10**9))
def test_lines_and_their_newlines_are_the_bytes_that_were_consumed(data: bytes, offset: int) -> None:
    events = split_lines(data, offset, final=False)
    assert b"".join(line + b"\n" for line in events.values) == data[: events.end - offset]
    for line, start in zip(events.values, events.offsets, strict=True):
        assert data[start - offset : start - offset + len(line)] == line


def test_events_of_several_lines_begin_with_the_pattern() -> None:
    start = compile_pattern("^[0-9]")
    lines = split_lines(b"1 a\n  at x\n\xff\n2 b\n  at y\n", 0, final=False)
    assert join_lines(lines, start, final=False) == Events([b"1 a\n  at x\n\xff"], [0], 13)
    assert join_lines(lines, start, final=True) == Events([b"1 a\n  at x\n\xff", b"2 b\n  at y"], [0, 13], 24)


def test_lines_before_the_first_beginning_are_an_event() -> None:
    start = compile_pattern("^[0-9]")
    lines = split_lines(b"rest\n1 a\n2 b\n", 0, final=False)
    assert join_lines(lines, start, final=False) == Events([b"rest", b"1 a"], [0, 5], 9)


def test_events_that_are_too_long_are_set_aside() -> None:
    events = Events([b"a", b"bbb", b"c"], [0, 2, 6], 8)
    separated = separate_too_long(events, 2)
    assert separated.events == Events([b"a", b"c"], [0, 6], 8)
    assert separated.too_long == [(2, b"bbb")]
