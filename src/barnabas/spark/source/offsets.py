"""Offsets in options and checkpoints, and the arithmetic of micro-batches. Pure: sends no requests.

In a checkpoint: `{"orders": {"0": 23, "1": 7}, "#ids": {"orders": "<topic id>"}}`. The first part is the format of
Spark's Kafka connector. Keys with a `#`, which topic names cannot contain, are ours: the ids detect a topic that was
deleted and recreated; `#start` is part of the first offsets of a query and records its start, because Spark asks a
source for it again when a query is restarted before its first batch has finished.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from barnabas.common.types import TopicPartition
from barnabas.spark.options import OptionError, Options

LATEST, EARLIEST = -1, -2

Offsets: TypeAlias = dict[TopicPartition, int]

IDS, START = "#ids", "#start"
EXAMPLE = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'


@dataclass(frozen=True)
class StreamPosition:
    """Position of a stream, as stored in a checkpoint."""

    offsets: Offsets
    ids: dict[str, str] = field(default_factory=dict)
    start: Offsets | None = None

    def to_json(self) -> dict[str, Any]:
        written: dict[str, Any] = by_topic(self.offsets)
        if self.ids:
            written[IDS] = dict(sorted(self.ids.items()))
        if self.start is not None:
            written[START] = by_topic(self.start)
        return written

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> StreamPosition:
        topics = {name: value for name, value in written.items() if not name.startswith("#")}
        start = written.get(START)
        return cls(flat(topics), dict(written.get(IDS, {})), None if start is None else flat(start))


@dataclass(frozen=True)
class OffsetSpec:
    """Start or end of a read before it is resolved: one of four forms."""

    word: int | None = None  # LATEST or EARLIEST, everywhere
    offsets: Offsets | None = None
    timestamp: int | None = None
    timestamps: Offsets | None = None


def moment_option(options: Options, which: str, default: int) -> OffsetSpec:
    """`which` is "starting" or "ending". One timestamp comes before many, and they before offsets, as in Spark."""
    if f"{which}Timestamp" in options:
        return OffsetSpec(timestamp=options.number(f"{which}Timestamp"))
    if f"{which}OffsetsByTimestamp" in options:
        return OffsetSpec(timestamps=parse_offsets(options, f"{which}OffsetsByTimestamp"))
    name = f"{which}Offsets"
    if name not in options:
        return OffsetSpec(word=default)
    word = (options.text(name) or "").lower()
    if word in ("latest", "earliest"):
        return OffsetSpec(word=LATEST if word == "latest" else EARLIEST)
    return OffsetSpec(offsets=parse_offsets(options, name))


def check_batch_moments(starting: OffsetSpec, ending: OffsetSpec) -> None:
    """Reject, as Spark does, a batch that starts at the end or ends at the beginning."""
    if starting.word == LATEST or LATEST in (starting.offsets or {}).values():
        raise OptionError("option 'startingOffsets' can't be latest for a batch read")
    if ending.word == EARLIEST or EARLIEST in (ending.offsets or {}).values():
        raise OptionError("option 'endingOffsets' can't be earliest for a batch read")
    for first, last in ((starting.offsets, ending.offsets), (starting.timestamps, ending.timestamps)):
        if first is None or last is None:
            continue
        if set(first) != set(last):
            raise OptionError("starting and ending offsets must name the same partitions")
        for tp, begin in first.items():
            if 0 <= last[tp] < begin:
                raise OptionError(f"{tp} starts at offset {begin}, but ends before it, at {last[tp]}")


def parse_offsets(options: Options, name: str) -> Offsets:
    text = options.text(name) or ""
    try:
        return flat(json.loads(text))
    except (ValueError, TypeError, AttributeError):
        raise OptionError(f"option {name!r}: expected e.g. {EXAMPLE}, got {text}") from None


def parse_partitions(text: str) -> list[TopicPartition]:
    """The option `assign`: `{"orders":[0,1]}`."""
    try:
        partitions = [
            TopicPartition(topic, int(index)) for topic, found in json.loads(text).items() for index in found
        ]
    except (ValueError, TypeError, AttributeError):
        partitions = []
    if not partitions:
        raise OptionError(f'option \'assign\': expected e.g. {{"topicA":[0,1],"topicB":[0]}}, got {text}')
    return sorted(partitions)


def flat(topics: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        TopicPartition(topic, int(index)): int(offset)
        for topic, partitions in topics.items()
        for index, offset in partitions.items()
    }


def by_topic(offsets: Offsets) -> dict[str, Any]:
    """Sorted, so that equal offsets are equal texts: Spark compares the text."""
    topics: dict[str, Any] = {}
    for (topic, index), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(index)] = offset
    return topics


def size_between(start: Offsets, end: Offsets) -> int:
    return sum(max(0, offset - start.get(tp, 0)) for tp, offset in end.items())


def share_out(limit: int, start: Offsets, end: Offsets) -> Offsets:
    """The end of a micro-batch of about `limit` offsets, in proportion to what each partition holds, as in Spark."""
    sizes = {tp: end[tp] - start.get(tp, 0) for tp in end if end[tp] > start.get(tp, 0)}
    total = sum(sizes.values())
    if total <= limit:
        return dict(end)
    shared = dict(end)
    for tp, size in sizes.items():
        # At least one: a small partition must make progress next to large ones.
        part = max(1, limit * size // total)
        shared[tp] = min(start.get(tp, 0) + part, end[tp])
    return shared


def partitions_text(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions)))
