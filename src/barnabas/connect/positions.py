"""Read positions of a connector in Spark's checkpoint, and changing them.

The entry of batch n holds the end offsets of the batch, where the next one begins. Setting offsets rewrites the entry
of the last batch. That batch must be complete: the sink may already hold rows of an unfinished one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from barnabas.common.types import TopicPartition
from barnabas.connect.control_files import ControlFolder
from barnabas.spark import PipelineError

FLOW = "rows"
HEADER = 2  # lines before those of the sources: the version and the metadata of the batch


class Positions:
    def __init__(self, state: ControlFolder, connector: str) -> None:
        self._checkpoint = state.below("checkpoints").below(FLOW)
        self._incoming = state.below("incoming")
        self._connector = connector

    def last_batch(self) -> int | None:
        """Return the number of the last complete batch."""
        return _last(self._checkpoint.below("commits"))

    def read(self) -> list[Any]:
        """Return the end of the last batch per source: offsets by topic and partition, or the source's own format."""
        last = self.last_batch()
        return [] if last is None else [json.loads(line) for line in self._entry(last)[HEADER:]]

    def incoming(self) -> str | None:
        """Return the value up to which rows of a database table are staged."""
        decided = self._incoming.below("rows").below("_barnabas").below("batches").below("incoming")
        numbers = [name for name in decided.names() if name.endswith(".json")]
        text = self._incoming.below("ends").read_text(max(numbers)) if numbers else None
        return None if text is None else str(json.loads(text))

    def set(self, offsets: Mapping[TopicPartition, int]) -> None:
        last, begun = self.last_batch(), _last(self._checkpoint.below("offsets"))
        if last is None:
            raise PipelineError(
                f"{self._connector} has not completed a batch yet: set the start position with `start` of its source."
            )
        if begun is not None and begun > last:
            raise PipelineError(
                f"Batch {begun} of {self._connector} is incomplete: `barnabas connect run --once` "
                "finishes it; then its offsets can be set."
            )
        lines = self._entry(last)
        sources = [json.loads(line) for line in lines[HEADER:]]
        for tp, offset in offsets.items():
            _move(sources, tp, offset)
        text = "\n".join([*lines[:HEADER], *(json.dumps(one, separators=(",", ":")) for one in sources)])
        self._checkpoint.below("offsets").write_text(str(last), text)

    def _entry(self, batch: int) -> list[str]:
        return (self._checkpoint.below("offsets").read_text(str(batch)) or "").splitlines()


def rows_of(sources: list[Any]) -> list[dict[str, Any]]:
    """Return one row per partition for display; positions of other sources are shown unchanged."""
    found: list[dict[str, Any]] = []
    for source in sources:
        topics = {name: parts for name, parts in source.items() if _is_topic(name, parts)}
        if not topics:
            found.append({"source": json.dumps(source), "partition": None, "offset": None})
        for topic, parts in topics.items():
            for number, offset in sorted(parts.items(), key=lambda part: int(part[0])):
                found.append({"source": topic, "partition": int(number), "offset": offset})
    return found


def partition_and_offset(text: str) -> tuple[TopicPartition, int]:
    """Parse `orders:0=1200`; ValueError if invalid."""
    tp, equals, offset = text.rpartition("=")
    topic, colon, partition = tp.rpartition(":")
    if not equals or not colon or not topic or not partition.isdecimal() or not offset.isdecimal():
        raise ValueError(f"not a valid TOPIC:PARTITION=OFFSET: {text!r} (example: orders:0=1200)")
    return TopicPartition(topic, int(partition)), int(offset)


def _move(sources: list[Any], tp: TopicPartition, offset: int) -> None:
    for source in sources:
        parts = source.get(tp.topic)
        if _is_topic(tp.topic, parts) and str(tp.partition) in parts:
            parts[str(tp.partition)] = offset
            return
    raise PipelineError(
        f"The connector does not read {tp.topic}-{tp.partition}; `connect offsets` lists its partitions."
    )


def _is_topic(name: str, parts: Any) -> bool:
    return not name.startswith("#") and isinstance(parts, dict) and all(key.isdecimal() for key in parts)


def _last(folder: ControlFolder) -> int | None:
    numbers = [int(name) for name in folder.names() if name.isdecimal()]
    return max(numbers, default=None)
