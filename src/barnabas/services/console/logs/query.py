"""Log queries: words, phrases or a pattern, levels, names and a time range. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from barnabas.common.regex import PatternError, compile_for_long_texts
from barnabas.services.console.logs.columns import LEVELS

MAX = 4096
"""Characters of a text that is looked for."""
MAX_WORDS = 32
FACETS = ("level", "host", "service", "topic")

_WORD = re.compile(r'\s*(?P<without>-)?(?:"(?P<phrase>[^"]*)"|(?P<open>")|(?P<word>\S+))')


class BadQueryError(ValueError):
    """The text says what is wrong, and `column` where, from 1 on, if that is known."""

    def __init__(self, why: str, column: int | None = None) -> None:
        super().__init__(why if column is None else f"{why} (column {column})")
        self.column = column


class Term(NamedTuple):
    """A line must match this pattern of RE2, whatever the case of its letters; or must not."""

    pattern: str
    wanted: bool = True


class LineFilter(NamedTuple):
    """All of it must hold for a line."""

    terms: tuple[Term, ...] = ()
    levels: frozenset[int] | None = None
    names: Mapping[str, frozenset[str]] = {}
    """By column; one of these values."""
    since: int | None = None
    until: int | None = None
    """In milliseconds: since <= time < until."""


class Cursor(NamedTuple):
    """Lines older than this one; of the same time, those that came before it."""

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
    """Words and "phrases", all of which are in a line, -those that are not; or one regular expression of RE2."""
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
    """With the column in what was written, not in what we made of it."""
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
    """A pattern of RE2 that matches this text and nothing else. Python's `re.escape` escapes what RE2 refuses."""
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", text).replace("\0", r"\x00")


def read_levels(text: str) -> frozenset[int] | None:
    names = split_names(text.lower())
    unknown = names - set(LEVELS)
    if unknown:
        raise BadQueryError(f"unknown level {min(unknown)[:50]!r}; levels are {', '.join(LEVELS)}")
    return frozenset(map(LEVELS.index, names)) or None


def split_names(text: str) -> frozenset[str]:
    """`a,b` is one of both. None: whatever it is."""
    return frozenset(name for name in text.split(",") if name)


def read_names(chosen: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    return {column: frozenset(values) for column, values in chosen.items() if values}
