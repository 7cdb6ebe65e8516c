"""Log lines and entries without Spark, with the tables of the template."""

import ast
import pickle
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipelines.definitions.templates import LIBRARY
from barnabas.pipelines.log_lines import (
    IMPOSSIBLE,
    NO_VALUE,
    ORPHAN,
    UNKNOWN,
    Entry,
    Joiner,
    Letter,
    LineRules,
    line_rules,
)

TABLES = {"TIME", "LEVELS", "CONTEXT", "BEGINS", "CONTINUES", "MASKS"}


def tables() -> dict[str, Any]:
    """Of the template, whose definitions want a Spark."""
    source = (LIBRARY / "logs/template/transformations/entries.py").read_text()
    found: dict[str, Any] = {}
    for node in ast.parse(source).body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id in TABLES
        ):
            exec(compile(ast.Module([node], []), "entries.py", "exec"), found)
    return {name.lower(): found[name] for name in TABLES - {"TIME", "CONTEXT"}}


def rules(**settings: str) -> LineRules:
    return line_rules({name.replace("_", "."): value for name, value in settings.items()}, **tables())


def joined(lines: list[bytes | None], **settings: str) -> tuple[list[Entry], list[Letter]]:
    """All entries, the last one too, and all letters."""
    joiner = Joiner(rules(**settings))
    found = [each for offset, line in enumerate(lines) for each in joiner.take(offset, line)]
    found += joiner.end()
    return [each for each in found if isinstance(each, Entry)], [
        each for each in found if isinstance(each, Letter)
    ]


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("2026-11-16T01:02:03Z INFO x", ("2026-11-16T01:02:03+00:00", "INFO", "x")),
        ("2026-11-16 01:02:03,5 WARN x y", ("2026-11-16T01:02:03.500000", "WARN", "x y")),
        ("2026-11-16T01:02:03.123456789+0130 ERROR x", ("2026-11-15T23:32:03.123456+00:00", "ERROR", "x")),
        ("2026-11-16 01:02:03.1 +01:00 [FATAL] x", ("2026-11-16T00:02:03.100000+00:00", "FATAL", "x")),
        ("[2026-11-16 01:02:03] [TRACE]: x", ("2026-11-16T01:02:03", "TRACE", "x")),
        (
            "2026-11-16 01:02:03,123 [main] DEBUG  a.B - x",
            ("2026-11-16T01:02:03.123000", "DEBUG", "[main] a.B - x"),
        ),
        ("2026-11-16 01:02:03,123 - a.b - WARNING - x", ("2026-11-16T01:02:03.123000", "WARN", "- a.b - x")),
        ("2026-11-16T01:02:03Z CRITICAL", ("2026-11-16T01:02:03+00:00", "FATAL", "")),
        (
            "2026-11-16T01:02:03Z INFO\nsecond line\r\n",
            ("2026-11-16T01:02:03+00:00", "INFO", "\nsecond line"),
        ),
    ],
)
def test_a_time_and_a_level_begin_an_entry(line: str, entry: tuple[str, str, str]) -> None:
    (found,), letters = joined([line.encode()])
    assert ((found.time, found.level, found.message), letters) == (entry, [])


@pytest.mark.parametrize(
    "line",
    [
        "",
        "  indented",
        "\tat com.shop.Pay.charge(Pay.java:88)",
        "at com.shop.Pay.charge(Pay.java:88)",
        "Caused by: java.lang.IllegalStateException: no",
        "... 12 more",
        'Exception in thread "main" java.lang.Error',
        "Traceback (most recent call last):",
        'File "pay.py", line 8',
        "During handling of the above exception, another exception occurred:",
        "The above exception was the direct cause of the following exception:",
        "ValueError: no",
        "shop.errors.Refused$NoMoneyException",
        "KeyboardInterrupt",
        "panic: runtime error",
        "goroutine 1 [running]:",
        "}",
        "]),",
    ],
)
def test_continuation_lines_join_their_entry(line: str) -> None:
    (entry,), letters = joined([b"2026-11-16T01:02:03Z INFO x", line.encode()])
    assert (entry.message, entry.lines, letters) == (f"x\n{line}", 2, [])


STRAYS = [
    "%%% disk quota exceeded",
    "free text",
    "INFO without a time",
    "2026-11-16T01:02:03Z without a level",
    "2026-11-16T01:02:03Z INFORMATION",
    "16/Nov/2026 ERROR x",
    "An Error: happened",
]


@pytest.mark.parametrize("line", STRAYS)
def test_any_other_line_is_set_aside_and_neither_ends_nor_joins_the_entry_around_it(line: str) -> None:
    lines = [b"2026-11-16T01:02:03Z INFO x", line.encode(), b"  y"]
    (entry,), letters = joined([*lines])
    assert (entry.message, letters) == ("x\n  y", [Letter(UNKNOWN, line.encode(), 0)])
    (entry,), letters = joined([*lines], logs_unknown_lines="join")
    assert (entry.message, letters) == (f"x\n{line}\n  y", [])


def test_unjoined_lines_and_empty_values_become_dead_letters() -> None:
    entries, letters = joined([b"  at first", None, b"", b"2026-11-16T01:02:03Z INFO x", None, b"  y"])
    assert [entry.message for entry in entries] == ["x\n  y"]
    assert letters == [
        Letter(ORPHAN, b"  at first", 0),
        Letter(NO_VALUE, None, 0),
        Letter(ORPHAN, b"", 0),
        Letter(NO_VALUE, None, 0),
    ]


@pytest.mark.parametrize("timestamp", ["2026-02-30T00:00:00Z", "2026-01-01T24:00:01Z", "0000-01-01 00:00:00"])
def test_impossible_time_ends_the_previous_entry_and_includes_the_lines_below(timestamp: str) -> None:
    bad = f"{timestamp} ERROR boom".encode()
    entries, letters = joined([b"2026-11-16T01:02:03Z INFO x", bad, b"  trace of boom"])
    assert [entry.message for entry in entries] == ["x"]
    assert letters == [Letter(IMPOSSIBLE, bad, 0), Letter(ORPHAN, b"  trace of boom", 0)]


def test_personal_data_is_masked_and_every_other_byte_of_a_letter_stays() -> None:
    line = b"\xff ann.o+x@mail.example.com \xe9\x00 10.0.0.1, 4000 1234 5678 9012 \x80"
    masked = b"\xff <email> \xe9\x00 <address>, <card> \x80"
    assert joined([line])[1] == [Letter(UNKNOWN, masked, 3)]
    assert joined([line], logs_dead_letters="original")[1] == [Letter(UNKNOWN, line, 0)]
    (entry,), _ = joined([b"2026-11-16T01:02:03Z INFO " + line, b" to ann@example.com"])
    assert entry.message == "\ufffd <email> \ufffd\x00 <address>, <card> \ufffd\n to <email>"


@given(
    st.lists(st.text("aé\n\N{MUSICAL SYMBOL G CLEF}", max_size=6), min_size=1, max_size=8),
    st.integers(1, 6),
    st.integers(1, 20),
    st.integers(1, 8),
)
def test_an_entry_keeps_the_longest_beginning_within_its_limits(
    texts: list[str], max_lines: int, max_bytes: int, restart: int
) -> None:
    """Whether or not its state was put aside in between."""
    limited = rules(logs_max_lines=str(max_lines), logs_max_bytes=str(max_bytes))
    texts = [text.rstrip("\n") for text in texts]
    joiner = Joiner(limited)
    for index, text in enumerate(texts):
        line = f"2026-11-16T01:02:03Z INFO .{text}" if index == 0 else f" {text}"
        assert list(joiner.take(index, line.encode())) == []
        if index == restart:
            joiner = Joiner(limited, joiner.pending)
    (entry,) = joiner.end()
    complete = "\n".join([f".{texts[0]}", *(f" {text}" for text in texts[1:])])
    kept = "\n".join(complete.split("\n")[:max_lines]).encode()[:max_bytes].decode("utf-8", "ignore")
    assert entry.message == kept
    assert entry.lines == complete.count("\n") + 1
    assert entry.omitted_lines == complete.count("\n") - kept.count("\n")
    assert entry.omitted_bytes == len(complete.encode()) - len(kept.encode())


@pytest.mark.parametrize("text", ["a", "-", "1", "a@", "a.", " ", "4000 ", "1.", "Error", "["])
def test_a_line_of_a_megabyte_takes_no_more_than_its_length_deserves(text: str) -> None:
    """A pattern with quadratic cost would take hours."""
    joiner = Joiner(rules())
    began = time.process_time()
    for line in (text * (1_000_000 // len(text)), f"2026-11-16T01:02:03Z INFO {text * 1000}"):
        list(joiner.take(0, line.encode()))
    assert time.process_time() - began < 20


def test_rules_travel_to_workers() -> None:
    again = pickle.loads(pickle.dumps(rules()))
    assert list(Joiner(again).take(0, b"?")) == [Letter(UNKNOWN, b"?", 0)]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"logs_max_lines": "0"}, "logs.max.lines must be a whole number above zero, not '0'"),
        ({"logs_max_bytes": "1 MB"}, "logs.max.bytes must be a whole number above zero, not '1 MB'"),
        ({"logs_unknown_lines": "drop"}, "logs.unknown.lines must be dead-letter or join, not 'drop'"),
        ({"logs_dead_letters": "none"}, "logs.dead.letters must be masked or original, not 'none'"),
    ],
)
def test_a_setting_that_cannot_be_is_named(settings: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        rules(**settings)
