"""How far groups are behind: pure, from commits, ends and what is remembered of them."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping

from barnabas.console.sampling.commits import ListedGroupAt, Position, Positions
from barnabas.console.sampling.end_times import EndTimes
from barnabas.console.sampling.snapshot import UNKNOWN, GroupSample, GroupTopic, WorstLag

NOT_KNOWN = math.nan


def measure_group(
    group: ListedGroupAt,
    positions: Positions,
    ends: Mapping[str, array[int]],
    times: EndTimes,
    now_ms: int,
    rate: float | None,
) -> GroupSample:
    topics = tuple(
        _measure_topic(name, positions[name], ends.get(name, array("q")), times, now_ms)
        for name in sorted(positions)
    )
    seconds = [topic.lag_seconds for topic in topics]
    return GroupSample(
        *(group.name, group.type, group.state, group.protocol, group.coordinator, topics),
        lag=sum(topic.lag for topic in topics) if topics else None,
        lag_seconds=max((each for each in seconds if each is not None), default=None),
        rate=rate,
    )


def _measure_topic(
    name: str, positions: Mapping[int, Position], ends: array[int], times: EndTimes, now_ms: int
) -> GroupTopic:
    indexes = array("i", sorted(positions))
    committed = array("q", [positions[index].offset for index in indexes])
    mine = array("q", [ends[index] if index < len(ends) else UNKNOWN for index in indexes])
    lags = array("q", [_lag(positions[index], end) for index, end in zip(indexes, mine, strict=True)])
    seconds = array(
        "d",
        [
            _seconds(times.written_ms(name, index, offset), now_ms)
            if lag > 0
            else 0.0
            if lag == 0
            else NOT_KNOWN
            for index, offset, lag in zip(indexes, committed, lags, strict=True)
        ],
    )
    return GroupTopic(name, indexes, committed, mine, lags, seconds)


def _lag(position: Position, end: int) -> int:
    """As Kafka's tools say it: a coordinator that counts knows better than the difference."""
    if position.lag >= 0:
        return position.lag
    return max(end - position.offset, 0) if end >= 0 else UNKNOWN


def _seconds(written_ms: float | None, now_ms: int) -> float:
    return NOT_KNOWN if written_ms is None else max(0.0, (now_ms - written_ms) / 1000)


def committed_between(before: Positions, after: Positions) -> dict[str, int]:
    """Records that a group has gone forward by, by topic. What it was set back does not count."""
    moved = {}
    for topic, positions in after.items():
        known = before.get(topic)
        if known is not None:
            steps = (position.offset - known[i].offset for i, position in positions.items() if i in known)
            moved[topic] = sum(step for step in steps if step > 0)
    return moved


def worse(one: WorstLag | None, other: WorstLag) -> WorstLag:
    """More seconds are worse; where they are not known, more records."""
    if one is None:
        return other
    return max(one, other, key=lambda lag: (lag.seconds or 0.0, lag.lag))
