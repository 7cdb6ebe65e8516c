"""Plan of a change to a group's offsets: parsing and validation. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from barnabas.client.offsets import parse_start
from barnabas.common.types import TopicPartition
from barnabas.services.console.errors import BadInputError

EARLIEST, LATEST, TIME, NUMBER, SHIFT, COPY = "earliest", "latest", "time", "number", "shift", "copy"
WAYS = (EARLIEST, LATEST, TIME, NUMBER, SHIFT, COPY)


class OffsetChange(msgspec.Struct):
    topic: str
    partition: int
    before: int | None
    """None: the group has no offset there."""
    after: int

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class PlannedChange(OffsetChange):
    start: int
    end: int
    problem: str
    """Reason why the change is not possible; empty if it is."""


def parse_time(text: str) -> int:
    """Parse a time as epoch milliseconds."""
    try:
        start = parse_start(text)
    except ValueError:
        start = None
    if start is None or start.kind != "time" or not 0 <= start.value < 1 << 63:
        example = "2026-11-15T08:30 or 1794904200000 (milliseconds)"
        raise BadInputError(f"not a valid time: {text[:50]!r} (example: {example})", "value")
    return start.value


def parse_number(text: str, way: str) -> int:
    try:
        number = int(text)
    except ValueError:
        example = "120" if way == NUMBER else "-10 or 10"
        raise BadInputError(f"not a valid number: {text[:50]!r} (example: {example})", "value") from None
    if way == NUMBER and number < 0:
        raise BadInputError("An offset is not negative", "value")
    return number


def plan(
    wanted: Mapping[TopicPartition, int],
    before: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    partitions: Iterable[TopicPartition],
) -> list[PlannedChange]:
    """Plan each partition with a target offset, including unchanged ones."""
    planned = []
    for tp in sorted(partitions):
        if tp in wanted:
            start, end, after = starts[tp], ends[tp], wanted[tp]
            problem = ""
            if not start <= after <= end:
                problem = f"{after} is outside of the log, which has {start} to {end}"
            planned.append(PlannedChange(*tp, before.get(tp), after, start, end, problem))
    return planned


def differences(changes: Iterable[OffsetChange], now: Mapping[TopicPartition, int]) -> list[str]:
    """Partitions whose committed offset changed since the plan was made."""
    return [
        f"{change.tp} was at {_word(change.before)} and is at {_word(now.get(change.tp))}"
        for change in changes
        if now.get(change.tp) != change.before
    ]


def _word(offset: int | None) -> str:
    return "no offset" if offset is None else str(offset)
