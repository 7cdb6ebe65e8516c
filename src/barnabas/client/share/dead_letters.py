"""Dead letters, and the record of those already redriven.

Share groups, pipelines, ingest agents and Kafka Connect use different headers for the reason and the origin of a
dead letter (`DeadLetterHeaders`).

Progress is the committed offset of a group named after the dead-letter topic, so that every tool can see it.
Everything below it was redriven; letters redriven above it are ranges in the metadata of the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.types import TopicPartition
from barnabas.records.delays import (
    DELIVERIES_HEADER,
    GROUP_HEADER,
    OFFSET_HEADER,
    PARTITION_HEADER,
    REASON_HEADER,
    TOPIC_HEADER,
)

if TYPE_CHECKING:
    from barnabas.client.opening import ConsumedRecord
    from barnabas.records import Header

GROUP_PREFIX = "barnabas-redrive-"
REDRIVEN_HEADER = "barnabas-redriven-from"
MAX_METADATA = 4096  # offset.metadata.max.bytes
FIELDS = ("topic", "partition", "offset", "group", "deliveries", "reason", "key")


class DeadLetterHeaders(NamedTuple):
    """Header names of one kind of dead letter, by meaning."""

    kind: str
    marks: tuple[str, ...]
    """Headers that identify this kind."""
    topic: str = ""
    partition: str = ""
    offset: str = ""
    by: str = ""
    deliveries: str = ""
    reason: str = ""

    @property
    def facts(self) -> frozenset[str]:
        return frozenset(self[2:]) - {""}


_QUEUE = DeadLetterHeaders(
    "queue",
    (TOPIC_HEADER,),
    TOPIC_HEADER,
    PARTITION_HEADER,
    OFFSET_HEADER,
    GROUP_HEADER,
    DELIVERIES_HEADER,
    REASON_HEADER,
)
_PIPELINE = DeadLetterHeaders(
    "pipeline",
    ("errors.dataset", "errors.reason"),
    "errors.topic",
    "errors.partition",
    "errors.offset",
    "errors.dataset",
    "",
    "errors.reason",
)
_CONNECT = DeadLetterHeaders(
    "connect",
    ("__connect.errors.topic",),
    "__connect.errors.topic",
    "__connect.errors.partition",
    "__connect.errors.offset",
    "__connect.errors.connector.name",
    "",
    "__connect.errors.exception.message",
)
# Letters of an ingest agent come from a file, named in other headers.
_INGEST = DeadLetterHeaders("ingest", (REASON_HEADER,), by="path", reason=REASON_HEADER)
DIALECTS = (_QUEUE, _PIPELINE, _CONNECT, _INGEST)
_OTHER = DeadLetterHeaders("other", ())
"""Records without the headers of any kind, such as those written by hand."""


@dataclass(frozen=True)
class DeadLetter:
    tp: TopicPartition
    offset: int
    timestamp: int
    origin: TopicPartition
    """Origin; the topic is empty if unknown."""
    origin_offset: int
    group: str
    """The share group, pipeline dataset, connector or file."""
    deliveries: int
    reason: str
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    kind: str = _QUEUE.kind

    @property
    def where(self) -> str:
        return f"{self.tp.partition}:{self.offset}"

    @property
    def has_content(self) -> bool:
        """False if key and value were not copied: the original record must be fetched."""
        return self.key is not None or self.value is not None or not self.origin.topic

    @property
    def is_of_another_kind(self) -> bool:
        """True without known headers: reason and origin are unknown."""
        return self.kind == _OTHER.kind

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        values = (self.key, self.value, *(value for _, value in self.headers))
        return sum(len(value or b"") for value in values)

    def sent_back(self) -> tuple[Header, ...]:
        """Headers of the redriven record."""
        source = f"{self.tp.topic}-{self.tp.partition}@{self.offset}"
        return (*self.headers, (REDRIVEN_HEADER, source.encode()))


def read_letter(record: ConsumedRecord) -> DeadLetter:
    values = {name: (value or b"").decode(errors="replace") for name, value in record.headers}
    dialect = next((each for each in DIALECTS if values.keys() >= set(each.marks)), _OTHER)
    hidden = dialect.facts - {"path"}
    return DeadLetter(
        record.tp,
        record.offset,
        record.timestamp,
        TopicPartition(values.get(dialect.topic, ""), _number(values, dialect.partition)),
        _number(values, dialect.offset),
        values.get(dialect.by, ""),
        _number(values, dialect.deliveries),
        values.get(dialect.reason, ""),
        record.key,
        record.value,
        tuple(header for header in record.headers if header[0] not in hidden),
        dialect.kind,
    )


def _number(facts: Mapping[str, str], name: str) -> int:
    text = facts.get(name, "")
    return int(text) if _is_number(text) else -1


class DeadLetterFilter:
    """Conditions such as `reason=*rejected*`, `group=billing`; all must match. `*` and `?` are wildcards."""

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
class RedrivenOffsets:
    """Redriven offsets of one partition."""

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
        """Offsets above the position, as `17-19 23`; ValueError if too long for commit metadata."""
        text = " ".join(_spell(first, last) for first, last in _ranges(sorted(self.beyond)))
        if len(text) > MAX_METADATA:
            raise ValueError("too many single dead letters were redriven: redrive the older ones first")
        return text

    @classmethod
    def read(cls, position: int, metadata: str, end: int) -> RedrivenOffsets:
        """Parse commit metadata; values are bounded by the partition's `end`, because any client may commit."""
        beyond: set[int] = set()
        for part in metadata.split():
            first, _, last = part.partition("-")
            if _is_number(first) and (not last or _is_number(last)):
                beyond.update(range(max(int(first), position), min(int(last or first) + 1, end)))
        return cls(position, beyond)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20


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
