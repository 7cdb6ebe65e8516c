"""When a record was written, by what is remembered of the ends of its partition.

A topic's ends are noted when they have changed, with the last moment before, so an idle topic has one note. Between two
notes the end is taken to have moved evenly. Of many notes every second one of the older half is forgotten: the older,
the coarser.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from barnabas.common.types import TopicPartition

MOST_NOTES = 64


class Note(NamedTuple):
    ms: int
    ends: Sequence[int]


class KnownRecord(NamedTuple):
    """A record that was looked at."""

    offset: int
    ms: int


class EndTimes:
    """Of all topics of a cluster."""

    def __init__(self) -> None:
        self._notes: dict[str, list[Note]] = {}
        self._seen_ms: dict[str, int] = {}
        self._records: dict[TopicPartition, KnownRecord] = {}

    def note(self, topic: str, ms: int, ends: Sequence[int]) -> None:
        notes = self._notes.setdefault(topic, [])
        if not notes or notes[-1].ends != ends:
            if notes and self._seen_ms[topic] > notes[-1].ms:
                notes.append(Note(self._seen_ms[topic], notes[-1].ends))
            notes.append(Note(ms, ends))
            if len(notes) > MOST_NOTES:
                del notes[1 : MOST_NOTES // 2 : 2]
        self._seen_ms[topic] = ms

    def note_record(self, place: TopicPartition, offset: int, ms: int) -> None:
        self._records[place] = KnownRecord(offset, ms)

    def keep(self, topics: Collection[str]) -> None:
        """Forget the others."""
        for gone in self._notes.keys() - topics:
            del self._notes[gone], self._seen_ms[gone]
        self._records = {place: known for place, known in self._records.items() if place.topic in topics}

    def forget(self, topic: str) -> None:
        """It was deleted and created anew."""
        self._notes.pop(topic, None)
        self._seen_ms.pop(topic, None)
        for place in [place for place in self._records if place.topic == topic]:
            del self._records[place]

    def written_ms(self, topic: str, partition: int, offset: int) -> float | None:
        """When the record at `offset` was written; None if it is older than what is remembered, or not written."""
        before: tuple[int, int] | None = None
        known = self._records.get(TopicPartition(topic, partition))
        if known is not None and known.offset <= offset:
            before = (known.offset, known.ms)
        for ms, end in self._ends_of(topic, partition):
            if end > offset:
                return None if before is None else _between(before, (end, ms), offset)
            if before is None or end >= before[0]:
                before = (end, ms)
        return None

    def _ends_of(self, topic: str, partition: int) -> list[tuple[int, int]]:
        notes = self._notes.get(topic, ())
        return [(ms, ends[partition]) for ms, ends in notes if partition < len(ends) and ends[partition] >= 0]


def _between(before: tuple[int, int], after: tuple[int, int], offset: int) -> float:
    """The moment at which the end passed `offset`, if it moved evenly; both are (end, ms)."""
    (low, since), (high, until) = before, after
    return since + (until - since) * (offset - low) / (high - low)
