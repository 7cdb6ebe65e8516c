"""Joins lines of log files to entries, one file at a time and without Spark; the template `logs` defines the patterns.

A line that matches the beginning pattern starts an entry and ends the previous one. A continuation line (of a stack
trace, for example) belongs to the entry above it. Any other line becomes a `Letter`: it neither ends the surrounding
entry nor belongs to it, because another writer produced it (a second process, a broken shipper). Every record ends up
in one entry or in one letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import NamedTuple

NO_VALUE = "has no value"
UNKNOWN = "neither begins nor continues an entry"
ORPHAN = "continues an entry that is not there"
IMPOSSIBLE = "has a time that cannot be"

DEFAULTS = {
    # Longer than any stack trace that a person would read.
    "logs.max.lines": "500",
    # As JSON, with up to six bytes per character, still below the default limit of 1 MiB per record.
    "logs.max.bytes": "131072",
    "logs.unknown.lines": "dead-letter",
    "logs.dead.letters": "masked",
}


class Beginning(NamedTuple):
    time: str  # ISO 8601; without an offset if the line has none
    level: str
    message: str


class Letter(NamedTuple):
    """A record that belongs to no entry: its value, and the number of masked places."""

    problem: str
    value: bytes | None
    masked: int


@dataclass(frozen=True, kw_only=True)
class LineRules:
    """Patterns of lines, as Python regular expressions that match from the beginning of a line.

    `begins` has the groups time, level and message, and optionally context: text before the level that is prepended to
    the message. `levels` maps the words for levels to levels.
    """

    begins: str
    levels: Mapping[str, str]
    continues: Mapping[str, str]
    masks: Mapping[str, str]
    max_lines: int
    max_bytes: int
    join_unknown_lines: bool
    mask_letters: bool

    def __post_init__(self) -> None:
        _ = self._beginnings, self._continuations, self._masks  # reports invalid patterns early

    @cached_property
    def _beginnings(self) -> re.Pattern[str]:
        return re.compile(self.begins, re.DOTALL)

    @cached_property
    def _continuations(self) -> re.Pattern[str]:
        return re.compile("|".join(f"(?:{pattern})" for pattern in self.continues.values()))

    @cached_property
    def _masks(self) -> tuple[tuple[re.Pattern[str], str], ...]:
        return tuple((re.compile(pattern), name) for pattern, name in self.masks.items())

    def beginning(self, line: str) -> Beginning | None:
        """Parse the beginning of an entry; ValueError if the line matches but its time is invalid."""
        found = self._beginnings.match(line)
        if found is None:
            return None
        context = found.groupdict().get("context")
        message = found["message"] if context is None else f"{context} {found['message']}"
        return Beginning(_iso(found["time"]), self.levels[found["level"]], message)

    def continues_an_entry(self, line: str) -> bool:
        return self.join_unknown_lines or self._continuations.match(line) is not None

    def masked(self, text: str) -> tuple[str, int]:
        """Mask sensitive parts of the text; return it with the number of masked places."""
        total = 0
        for pattern, name in self._masks:
            text, count = pattern.subn(name, text)
            total += count
        return text, total

    def letter(self, problem: str, value: bytes | None) -> Letter:
        """Create a letter; bytes that are not masked are preserved, even if they are not valid UTF-8."""
        if value is None or not self.mask_letters:
            return Letter(problem, value, 0)
        text, count = self.masked(value.decode("utf-8", "surrogateescape"))
        return Letter(problem, text.encode("utf-8", "surrogateescape"), count)


class Entry(NamedTuple):
    """An entry, both complete and pending."""

    offset: int  # of its first line
    time: str
    level: str
    message: str  # beginning of its text, up to the limits of the rules
    lines: int  # all of them, including those cut off
    omitted_lines: int
    omitted_bytes: int


class Joiner:
    """Joins the lines of one file, in order. `pending` is the state to keep between calls."""

    def __init__(self, rules: LineRules, pending: Entry | None = None) -> None:
        self._rules = rules
        self._open = None if pending is None else OpenEntry(rules, pending)

    @property
    def pending(self) -> Entry | None:
        return None if self._open is None else self._open.entry()

    def take(self, offset: int, value: bytes | None) -> Iterator[Entry | Letter]:
        """Yield the entry that this record ends, and the record itself if it becomes a letter."""
        if value is None:
            yield self._rules.letter(NO_VALUE, value)
            return
        line = value.decode("utf-8", "replace").rstrip("\r\n")
        try:
            beginning = self._rules.beginning(line)
        except ValueError:
            # An entry without a valid time began: its continuation lines must not join the previous entry.
            yield from self.end()
            yield self._rules.letter(IMPOSSIBLE, value)
            return
        if beginning is not None:
            yield from self.end()
            self._open = OpenEntry(self._rules, Entry(offset, beginning.time, beginning.level, "", 1, 0, 0))
            self._open.add(self._rules.masked(beginning.message)[0])
        elif not self._rules.continues_an_entry(line):
            yield self._rules.letter(UNKNOWN, value)
        elif self._open is None:
            yield self._rules.letter(ORPHAN, value)
        else:
            self._open.add("\n" + self._rules.masked(line)[0])

    def end(self) -> Iterator[Entry]:
        """Yield the open entry and close it."""
        if self._open is not None:
            yield self._open.entry()
            self._open = None


class OpenEntry:
    """Accumulates text, and keeps its beginning up to the limits of the rules."""

    def __init__(self, rules: LineRules, entry: Entry) -> None:
        self._rules = rules
        self._first = entry
        self._pieces = [entry.message]
        self._bytes = len(entry.message.encode())
        self._lines = entry.lines
        self._kept_lines = entry.lines - entry.omitted_lines
        self._omitted_bytes = entry.omitted_bytes

    def add(self, piece: str) -> None:
        size = len(piece.encode())
        kept = "" if self._omitted_bytes else self._within_limits(piece)
        kept_size = len(kept.encode())
        self._pieces.append(kept)
        self._bytes += kept_size
        self._omitted_bytes += size - kept_size
        self._lines += piece.count("\n")
        self._kept_lines += kept.count("\n")

    def _within_limits(self, piece: str) -> str:
        lines = piece.split("\n", self._rules.max_lines - self._kept_lines + 1)
        data = "\n".join(lines[: self._rules.max_lines - self._kept_lines + 1]).encode()
        # Drop a character that is cut off by the limit.
        return data[: self._rules.max_bytes - self._bytes].decode("utf-8", "ignore")

    def entry(self) -> Entry:
        return self._first._replace(
            message="".join(self._pieces),
            lines=self._lines,
            omitted_lines=self._lines - self._kept_lines,
            omitted_bytes=self._omitted_bytes,
        )


def _iso(text: str) -> str:
    """Convert a time to a format that Spark reads: in UTC if it has an offset, otherwise unchanged."""
    date, rest = text[:10], text[11:]
    timestamp = datetime.fromisoformat(f"{date}T{rest.replace(' ', '')}")
    if timestamp.tzinfo is None:
        return timestamp.isoformat()
    try:
        return timestamp.astimezone(UTC).isoformat()
    except OverflowError:
        raise ValueError(f"{text} is before the first year or after the last") from None


def line_rules(
    settings: Mapping[str, str],
    *,
    begins: str,
    levels: Mapping[str, str],
    continues: Mapping[str, str],
    masks: Mapping[str, str],
) -> LineRules:
    """Return rules with the settings `logs.*` of a pipeline; ValueError names an invalid setting."""
    merged = {**DEFAULTS, **settings}
    return LineRules(
        begins=begins,
        levels=levels,
        continues=continues,
        masks=masks,
        max_lines=_number(merged, "logs.max.lines"),
        max_bytes=_number(merged, "logs.max.bytes"),
        join_unknown_lines=_choice(merged, "logs.unknown.lines", ("dead-letter", "join")) == "join",
        mask_letters=_choice(merged, "logs.dead.letters", ("masked", "original")) == "masked",
    )


def _number(settings: Mapping[str, str], name: str) -> int:
    text = settings[name]
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{name} must be a whole number above zero, not {text!r}")
    return int(text)


def _choice(settings: Mapping[str, str], name: str, known: tuple[str, ...]) -> str:
    if settings[name] not in known:
        raise ValueError(f"{name} must be {' or '.join(known)}, not {settings[name]!r}")
    return settings[name]
