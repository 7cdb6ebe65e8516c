"""Dead letters grouped by reason, and detection of dead-letter topics."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from barnabas.client.share import DeadLetter, DeadLetterFilter
from barnabas.services.console.errors import BadInputError

PREFIX = "errors.deadletterqueue.topic.name.prefix"
_NAMED_SO = re.compile(r"(^|[._-])(dlq|dlt|dead[._-]?letters?)($|[._-])", re.IGNORECASE)


class Reason(msgspec.Struct):
    """Dead letters with the same reason and origin."""

    kind: str
    """Component that rejected them: queue, pipeline, connect or ingest."""
    reason: str
    origin: str
    """Source topic; empty if unknown."""
    by: str
    """The share group, dataset, connector or file."""
    count: int
    first_ms: int
    last_ms: int


class LetterRow(msgspec.Struct):
    """Dead letter without the record's content, which the record page shows with masks applied."""

    partition: int
    offset: int
    timestamp: int
    kind: str
    origin: str
    origin_partition: int
    origin_offset: int
    by: str
    deliveries: int | None
    reason: str


def is_named_so(topic: str) -> bool:
    """True if the topic's name is that of a dead-letter topic."""
    return _NAMED_SO.search(topic) is not None


def reasons_of(letters: Iterable[DeadLetter]) -> list[Reason]:
    """Group dead letters by reason, most frequent first."""
    found: dict[tuple[str, str, str, str], Reason] = {}
    for letter in letters:
        key = (letter.kind, letter.reason, letter.origin.topic, letter.group)
        reason = found.setdefault(key, Reason(*key, 0, letter.timestamp, letter.timestamp))
        reason.count += 1
        reason.first_ms = min(reason.first_ms, letter.timestamp)
        reason.last_ms = max(reason.last_ms, letter.timestamp)
    return sorted(found.values(), key=lambda each: (-each.count, each.reason))


def row_of(letter: DeadLetter) -> LetterRow:
    return LetterRow(
        letter.tp.partition,
        letter.offset,
        letter.timestamp,
        letter.kind,
        letter.origin.topic,
        letter.origin.partition,
        letter.origin_offset,
        letter.group,
        letter.deliveries if letter.deliveries >= 0 else None,
        letter.reason,
    )


def filter_of(where: Iterable[str], *, masked: bool) -> DeadLetterFilter:
    """Rejects `key` if anything is masked: a filter must not reveal masked data."""
    texts = [text for text in where if text.strip()]
    if masked and any(text.partition("=")[0] == "key" for text in texts):
        raise BadInputError("Keys may be masked for you: filter by something else", "where")
    try:
        return DeadLetterFilter(texts)
    except ValueError as error:
        raise BadInputError(str(error), "where") from None
