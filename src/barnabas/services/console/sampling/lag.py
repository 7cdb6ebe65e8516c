"""Lag of groups, computed from committed offsets, end offsets and their history. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from barnabas.services.console.sampling.commits import GroupPositions, ListedGroupAt
from barnabas.services.console.sampling.end_times import EndTimes
from barnabas.services.console.sampling.offsets import Numbers
from barnabas.services.console.sampling.snapshot import UNKNOWN, GroupSample, GroupTopic, WorstLag

NOT_KNOWN = math.nan


def measure_group(
    group: ListedGroupAt,
    positions: GroupPositions,
    ends: Numbers,
    times: EndTimes,
    now_ms: int,
    rate: float | None,
) -> GroupSample:
    topics = tuple(
        _measure_topic(name, offsets, positions.lags.get(name, {}), ends.get(name, ()), times, now_ms)
        for name, offsets in sorted(positions.offsets.items())
    )
    seconds = [topic.lag_seconds for topic in topics]
    return GroupSample(
        *(group.name, group.type, group.state, group.protocol, group.coordinator, topics),
        lag=sum(topic.lag for topic in topics) if topics else None,
        lag_seconds=max((each for each in seconds if each is not None), default=None),
        rate=rate,
    )


def _measure_topic(
    name: str,
    offsets: Mapping[int, int],
    known_lags: Mapping[int, int],
    ends: Sequence[int],
    times: EndTimes,
    now_ms: int,
) -> GroupTopic:
    """Measure one topic. Lag reported by the coordinator takes precedence over end minus commit."""
    indexes = tuple(sorted(offsets))
    committed = tuple([offsets[index] for index in indexes])
    group_ends = tuple([ends[index] if index < len(ends) else UNKNOWN for index in indexes])
    lags = tuple(
        [known_lags.get(at, _lag(offsets[at], end)) for at, end in zip(indexes, group_ends, strict=True)]
    )
    if any(lags):
        ages = [_seconds(times, name, *row, now_ms) for row in zip(indexes, committed, lags, strict=True)]
    else:
        ages = [0.0] * len(lags)
    return GroupTopic(name, indexes, committed, group_ends, lags, tuple(ages))


def _lag(offset: int, end: int) -> int:
    return max(end - offset, 0) if end >= 0 else UNKNOWN


def _seconds(times: EndTimes, topic: str, partition: int, offset: int, lag: int, now_ms: int) -> float:
    if lag <= 0:
        return 0.0 if lag == 0 else NOT_KNOWN
    written_ms = times.written_ms(topic, partition, offset)
    return NOT_KNOWN if written_ms is None else max(0.0, (now_ms - written_ms) / 1000)


def committed_between(before: GroupPositions, after: GroupPositions) -> dict[str, int]:
    """Records committed between two samples, by topic. Offsets that were reset backwards do not count."""
    moved = {}
    for topic, offsets in after.offsets.items():
        known = before.offsets.get(topic)
        if known is not None:
            steps = [offset - known[at] for at, offset in offsets.items() if at in known]
            moved[topic] = sum(step for step in steps if step > 0)
    return moved


def worse(one: WorstLag | None, other: WorstLag) -> WorstLag:
    """The larger lag: by seconds, or by records if seconds are unknown."""
    if one is None:
        return other
    return max(one, other, key=lambda lag: (lag.seconds or 0.0, lag.lag))
