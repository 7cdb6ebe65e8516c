"""Dead letters as people look at them, and which of them were sent back already.

Which were is kept where every tool can see it: as the committed offset of a group named after the dead-letter topic.
Everything below it is done; what was picked out above it stands, as ranges, in the metadata of the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from barnabas.records.dead_letters import (
    DELIVERIES_HEADER,
    GROUP_HEADER,
    OFFSET_HEADER,
    PARTITION_HEADER,
    REASON_HEADER,
    TOPIC_HEADER,
)
from barnabas.types import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.opening import ConsumedRecord
    from barnabas.records.record import Header

GROUP_PREFIX = "barnabas-redrive-"
REDRIVEN_HEADER = "barnabas-redriven-from"
LONGEST_METADATA = 4096  # offset.metadata.max.bytes
_FACTS = (TOPIC_HEADER, PARTITION_HEADER, OFFSET_HEADER, GROUP_HEADER, DELIVERIES_HEADER, REASON_HEADER)
FIELDS = ("topic", "partition", "offset", "group", "deliveries", "reason", "key")


@dataclass(frozen=True)
class DeadLetter:
    place: TopicPartition
    offset: int
    timestamp: int
    origin: TopicPartition
    origin_offset: int
    group: str
    deliveries: int
    reason: str
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]

    @property
    def where(self) -> str:
        return f"{self.place.partition}:{self.offset}"

    @property
    def has_content(self) -> bool:
        """Whether key or value were copied; without them the original has to be looked up."""
        return self.key is not None or self.value is not None

    def sent_back(self) -> tuple[Header, ...]:
        """The headers of a record that gets another chance."""
        source = f"{self.place.topic}-{self.place.partition}@{self.offset}"
        return (*self.headers, (REDRIVEN_HEADER, source.encode()))


def read_letter(record: ConsumedRecord) -> DeadLetter | None:
    """None for a record that no share group has put there."""
    facts = {
        name: (value or b"").decode(errors="replace") for name, value in record.headers if name in _FACTS
    }
    if TOPIC_HEADER not in facts:
        return None
    return DeadLetter(
        record.place,
        record.offset,
        record.timestamp,
        TopicPartition(facts[TOPIC_HEADER], _number(facts, PARTITION_HEADER)),
        _number(facts, OFFSET_HEADER),
        facts.get(GROUP_HEADER, ""),
        _number(facts, DELIVERIES_HEADER),
        facts.get(REASON_HEADER, ""),
        record.key,
        record.value,
        tuple(header for header in record.headers if header[0] not in _FACTS),
    )


def _number(facts: Mapping[str, str], name: str) -> int:
    text = facts.get(name, "")
    return int(text) if text.isdigit() else -1


class Filter:
    """`reason=*rejected*`, `group=billing`: all have to match; `*` and `?` as in file names."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._patterns: list[tuple[str, str]] = []
        for text in texts:
            name, equals, pattern = text.partition("=")
            if not equals or name not in FIELDS:
                raise ValueError(f"{text!r} is not FIELD=PATTERN with a field of {', '.join(FIELDS)}")
            self._patterns.append((name, pattern))

    def __call__(self, letter: DeadLetter) -> bool:
        return all(fnmatchcase(_value(letter, name), pattern) for name, pattern in self._patterns)


def _value(letter: DeadLetter, name: str) -> str:
    values = {
        "topic": letter.origin.topic,
        "partition": letter.origin.partition,
        "offset": letter.origin_offset,
        "group": letter.group,
        "deliveries": letter.deliveries,
        "reason": letter.reason,
        "key": (letter.key or b"").decode(errors="replace"),
    }
    return str(values[name])


@dataclass
class Redriven:
    """Which offsets of one partition were sent back."""

    position: int = 0
    beyond: set[int] = field(default_factory=set)

    def __contains__(self, offset: int) -> bool:
        return offset < self.position or offset in self.beyond

    def add(self, offset: int) -> None:
        self.beyond.add(offset)
        while self.position in self.beyond:
            self.beyond.remove(self.position)
            self.position += 1

    def metadata(self) -> str:
        """What lies beyond the position, as `17-19 23`; ValueError when that is too much for a commit."""
        text = " ".join(_spell(first, last) for first, last in _ranges(sorted(self.beyond)))
        if len(text) > LONGEST_METADATA:
            raise ValueError("too many single dead letters were picked out: send back the older ones first")
        return text

    @classmethod
    def read(cls, position: int, metadata: str) -> Redriven:
        beyond: set[int] = set()
        for part in metadata.split():
            first, _, last = part.partition("-")
            if first.isdigit() and (not last or last.isdigit()):
                beyond.update(range(int(first), int(last or first) + 1))
        return cls(position, beyond)


def _ranges(ordered: list[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for offset in ordered:
        if ranges and offset == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], offset)
        else:
            ranges.append((offset, offset))
    return ranges


def _spell(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
