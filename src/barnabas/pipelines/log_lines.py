"""Lines of log files become entries, one file at a time and without Spark; the template `logs` says what lines are.

A line that has the form of a beginning begins an entry, and so ends the one before it. A line that looks like what goes
on (a stack trace, say) continues the entry above it. Any other line is set aside by itself, as a `Letter`: the entry
around it neither ends there nor has it in it, because the writer of the line (a second process, a broken shipper) did
not write the entry. Every record ends up in one entry or in one letter.
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
    # More than any stack trace that a person reads.
    "logs.max.lines": "500",
    # As JSON, where a character may take six bytes, still less than the 1 MiB that a topic takes unless told otherwise.
    "logs.max.bytes": "131072",
    "logs.unknown.lines": "dead-letter",
    "logs.dead.letters": "masked",
}


class Beginning(NamedTuple):
    time: str  # ISO; without an offset if the line has none
    level: str
    message: str


class Letter(NamedTuple):
    """A record that belongs to no entry: its value, and in how many places of it something was masked."""

    problem: str
    value: bytes | None
    masked: int


@dataclass(frozen=True, kw_only=True)
class LineRules:
    """What lines look like. Patterns are Python's, and must match from the beginning of a line.

    `begins` has the groups time, level and message, and may have context: what stands before the level and goes in
    front of the message. `levels` are the words that name a level, with the level.
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
        _ = self._beginnings, self._continuations, self._masks  # a wrong pattern is found now

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
        """ValueError if the line has the form of one, but a time that cannot be."""
        found = self._beginnings.match(line)
        if found is None:
            return None
        context = found.groupdict().get("context")
        message = found["message"] if context is None else f"{context} {found['message']}"
        return Beginning(_iso(found["time"]), self.levels[found["level"]], message)

    def continues_an_entry(self, line: str) -> bool:
        return self.join_unknown_lines or self._continuations.match(line) is not None

    def masked(self, text: str) -> tuple[str, int]:
        """The text without what must not be kept, and how many places that were."""
        total = 0
        for pattern, name in self._masks:
            text, count = pattern.subn(name, text)
            total += count
        return text, total

    def letter(self, problem: str, value: bytes | None) -> Letter:
        """Every byte that is not masked stays what it is, also where it is no text."""
        if value is None or not self.mask_letters:
            return Letter(problem, value, 0)
        text, count = self.masked(value.decode("utf-8", "surrogateescape"))
        return Letter(problem, text.encode("utf-8", "surrogateescape"), count)


class Entry(NamedTuple):
    """As it is written, and as it is kept while it may still go on."""

    offset: int  # of its first line
    time: str
    level: str
    message: str  # the beginning of its text, as much of it as the rules allow
    lines: int  # all of them, in the message or not
    omitted_lines: int
    omitted_bytes: int


class Joiner:
    """The lines of one file, in order. `pending` is what to keep from one call of the state to the next."""

    def __init__(self, rules: LineRules, pending: Entry | None = None) -> None:
        self._rules = rules
        self._open = None if pending is None else OpenEntry(rules, pending)

    @property
    def pending(self) -> Entry | None:
        return None if self._open is None else self._open.entry()

    def take(self, offset: int, value: bytes | None) -> Iterator[Entry | Letter]:
        """What is certain now: the entry that this record has ended, a letter of the record itself."""
        if value is None:
            yield self._rules.letter(NO_VALUE, value)
            return
        line = value.decode("utf-8", "replace").rstrip("\r\n")
        try:
            beginning = self._rules.beginning(line)
        except ValueError:
            # An entry began, though nobody knows when: what continues it must not go to the one above.
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
        """Nothing more comes for the entry that is open."""
        if self._open is not None:
            yield self._open.entry()
            self._open = None


class OpenEntry:
    """Takes any number of pieces of text, and keeps the longest beginning of it that the rules allow."""

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
        # A character that does not fit as a whole is left out.
        return data[: self._rules.max_bytes - self._bytes].decode("utf-8", "ignore")

    def entry(self) -> Entry:
        return self._first._replace(
            message="".join(self._pieces),
            lines=self._lines,
            omitted_lines=self._lines - self._kept_lines,
            omitted_bytes=self._omitted_bytes,
        )


def _iso(text: str) -> str:
    """A time as Spark reads it: in UTC if it says its offset, else as it stands."""
    date, rest = text[:10], text[11:]
    moment = datetime.fromisoformat(f"{date}T{rest.replace(' ', '')}")
    if moment.tzinfo is None:
        return moment.isoformat()
    try:
        return moment.astimezone(UTC).isoformat()
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
    """Rules with the settings `logs.*` of a pipeline; ValueError names the one that cannot be."""
    given = {**DEFAULTS, **settings}
    return LineRules(
        begins=begins,
        levels=levels,
        continues=continues,
        masks=masks,
        max_lines=_number(given, "logs.max.lines"),
        max_bytes=_number(given, "logs.max.bytes"),
        join_unknown_lines=_choice(given, "logs.unknown.lines", ("dead-letter", "join")) == "join",
        mask_letters=_choice(given, "logs.dead.letters", ("masked", "original")) == "masked",
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
