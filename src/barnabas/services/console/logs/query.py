"""Log queries: words, phrases or a pattern, levels, names and a time range. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from barnabas.common.durations import seconds_of
from barnabas.common.regex import PatternError, compile_for_long_texts
from barnabas.services.console.logs.columns import LEVELS

MAX = 4096
"""Maximum length of the search text in characters."""
MAX_WORDS = 32
FACETS = ("level", "host", "service", "topic")

_WORD = re.compile(r'\s*(?P<without>-)?(?:"(?P<phrase>[^"]*)"|(?P<open>")|(?P<word>\S+))')


class BadQueryError(ValueError):
    """Invalid query; `column` is the position of the error, from 1, if known."""

    def __init__(self, reason: str, column: int | None = None) -> None:
        super().__init__(reason if column is None else f"{reason} (column {column})")
        self.column = column


class Term(NamedTuple):
    """RE2 pattern that a line must match, or must not match, ignoring case."""

    pattern: str
    wanted: bool = True


class LineFilter(NamedTuple):
    """Conditions on a line, all of which must hold."""

    terms: tuple[Term, ...] = ()
    levels: frozenset[int] | None = None
    names: Mapping[str, frozenset[str]] = {}
    """Accepted values by column."""
    since: int | None = None
    until: int | None = None
    """In milliseconds: since <= time < until."""


class Cursor(NamedTuple):
    """Selects lines older than this one; lines of the same time are ordered by row."""

    time: int
    row: int

    def __str__(self) -> str:
        return f"{self.time}.{self.row}"


def read_cursor(text: str) -> Cursor:
    time, _, row = text.partition(".")
    try:
        return Cursor(int(time), int(row))
    except ValueError:
        raise BadQueryError(f"not a valid cursor: {text[:50]!r}; start again with the newest lines") from None


def read_text(find: str, *, is_pattern: bool) -> tuple[Term, ...]:
    """Parse words and "phrases" that a line must contain, -excluded ones, or a single RE2 regular expression."""
    if len(find) > MAX:
        raise BadQueryError(f"the text has {len(find)} characters, and at most {MAX} are looked for")
    if not find.strip():
        return ()
    terms = (_pattern(find),) if is_pattern else tuple(_words(find))
    if len(terms) > MAX_WORDS:
        raise BadQueryError(f"at most {MAX_WORDS} words are looked for; use a regular expression for more")
    return terms


def _pattern(text: str) -> Term:
    try:
        compile_for_long_texts(f"(?i:{text})")
    except PatternError:
        raise _named(text) from None
    return Term(text)


def _named(text: str) -> BadQueryError:
    """Error of a pattern, with the column in the user's text rather than in the derived pattern."""
    try:
        compile_for_long_texts(text)
    except PatternError as error:
        return BadQueryError(f"not a valid RE2 regular expression: {error}", error.column)
    return BadQueryError("this regular expression is too large when case is ignored: use fewer alternatives")


def _words(text: str) -> Iterator[Term]:
    for match in _WORD.finditer(text.rstrip()):
        if match["open"]:
            raise BadQueryError('a " is not closed', match.start("open") + 1)
        found = match["phrase"] if match["phrase"] is not None else match["word"]
        if found:
            yield Term(quoted(found), not match["without"])


def quoted(text: str) -> str:
    """RE2 pattern that matches exactly this text. RE2 rejects some escapes of Python's `re.escape`."""
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", text).replace("\0", r"\x00")


def read_levels(text: str) -> frozenset[int] | None:
    names = split_names(text.lower())
    unknown = names - set(LEVELS)
    if unknown:
        raise BadQueryError(f"unknown level {min(unknown)[:50]!r}; levels are {', '.join(LEVELS)}")
    return frozenset(map(LEVELS.index, names)) or None


def split_names(text: str) -> frozenset[str]:
    """Split a comma-separated list of names."""
    return frozenset(name for name in text.split(",") if name)


def read_names(chosen: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    return {column: frozenset(values) for column, values in chosen.items() if values}


# -- Times: `15m` ago, ISO 8601, epoch milliseconds, or empty ------------------------------------------

ALL = "all"
_MILLISECONDS_DIGITS = 11
"""Shorter numbers would be a time in early 1970."""


def moment_of(text: str, now: float) -> int | None:
    """Epoch milliseconds; None for `all` and for empty text. A time without a zone is UTC."""
    word = text.strip()
    if not word or word == ALL:
        return None
    if word.isdigit() and len(word) >= _MILLISECONDS_DIGITS:
        return int(word[:15])
    try:
        return int((now - seconds_of(word)) * 1000)
    except (ValueError, OverflowError):
        pass
    try:
        found = datetime.fromisoformat(word)
        return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise BadQueryError(
            f"not a valid time: {word[:50]!r}; write 15m, 2h, 2026-11-17 16:00 (UTC), milliseconds since 1970, or {ALL}"
        ) from None


# -- Matches to highlight ------------------------------------------------------------------------------

MAX_MARKS = 100

Mark = tuple[int, int]
"""Start and end."""


def marks_of(message: str, terms: Iterable[Term]) -> list[Mark]:
    """Sorted, non-overlapping spans."""
    found: list[Mark] = []
    for start, end in sorted(span for term in terms if term.wanted for span in _spans(message, term)):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found[:MAX_MARKS]


def _spans(message: str, term: Term) -> list[Mark]:
    found: list[Mark] = []
    for match in compile_for_long_texts(f"(?i:{term.pattern})").finditer(message):
        if match.end() > match.start():
            found.append(match.span())
        if len(found) >= MAX_MARKS:
            break
    return found
