"""Series recorded from a snapshot: the cluster, its brokers, all groups, and active topics."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple
from urllib.parse import quote

from barnabas.client import Client, ClientError
from barnabas.client.offsets import end_offsets, list_offsets
from barnabas.common.errors import KafkaError
from barnabas.common.types import TopicPartition
from barnabas.services.console.history.curve import Curve
from barnabas.services.console.sampling.snapshot import ClusterSnapshot, GroupSample, Slices, TopicSample

# -- Rates before the console was started, from the offsets for past timestamps (ListOffsets) -----------

POINTS = 72
AT_ONCE = 4
MAX_PARTITIONS = 200
"""With more partitions, the timestamp lookups would cost the brokers too much."""
MAX_KEPT = 64
TIMEOUT = 5.0


class PastRate(NamedTuple):
    until_ms: int
    rate: float
    """Records per second in the step that ends at `until_ms`."""


class PastRates:
    """Past rates, cached by curve, as the past does not change."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kept: OrderedDict[tuple[object, ...], list[PastRate]] = OrderedDict()

    async def of(self, partitions: Sequence[TopicPartition], since_ms: int, until_ms: int) -> list[PastRate]:
        """Past rates; empty for too many partitions or if the cluster does not answer in time."""
        if not partitions or len(partitions) > MAX_PARTITIONS:
            return []
        step = max(1000, (until_ms - since_ms) // POINTS)
        key = (frozenset(partitions), step, since_ms // step)
        if key not in self._kept:
            try:
                async with asyncio.timeout(TIMEOUT):
                    self._kept[key] = await _past_rates(
                        self._client, partitions, since_ms - since_ms % step, step
                    )
            except (ClientError, KafkaError, TimeoutError):
                return []
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return self._kept[key]


async def _past_rates(
    client: Client, partitions: Sequence[TopicPartition], since_ms: int, step_ms: int
) -> list[PastRate]:
    timestamps = [since_ms + at * step_ms for at in range(POINTS + 1)]
    ends = await end_offsets(client, partitions)
    limit = asyncio.Semaphore(AT_ONCE)

    async def written_before(timestamp: int) -> int:
        async with limit:
            found = await list_offsets(client, dict.fromkeys(partitions, timestamp))
        return sum(
            found[position].offset if found[position].offset >= 0 else ends[position]
            for position in partitions
        )

    written = await asyncio.gather(*map(written_before, timestamps))
    return [
        PastRate(timestamps[at], max(0, written[at] - written[at - 1]) / (step_ms / 1000))
        for at in range(1, len(timestamps))
    ]


def with_past(curve: Curve, past: Sequence[PastRate]) -> Curve:
    """Fill the gap at the start of a curve with past rates; resampling preserves the number of records."""
    if len(past) < 2 or len(curve.times) < 2:
        return curve
    first = next((at for at, value in enumerate(curve.values) if value is not None), len(curve.values))
    written = _Written(past)
    step_ms = curve.times[1] - curve.times[0]
    values = list(curve.values)
    for at in range(first):
        begin, end = curve.times[at], curve.times[at] + step_ms
        if written.knows(begin, end):
            values[at] = (written.before(end) - written.before(begin)) / (step_ms / 1000)
    return Curve(curve.times, values)


class _Written:
    """Cumulative number of records written since the first step."""

    def __init__(self, past: Sequence[PastRate]) -> None:
        self._step_ms = past[1].until_ms - past[0].until_ms
        self._first_ms = past[0].until_ms - self._step_ms
        self._last_ms = past[-1].until_ms
        self._counts = list(accumulate((each.rate * self._step_ms / 1000 for each in past), initial=0.0))

    def knows(self, begin_ms: int, end_ms: int) -> bool:
        return begin_ms < self._last_ms and end_ms > self._first_ms

    def before(self, ms: int) -> float:
        position = (min(max(ms, self._first_ms), self._last_ms) - self._first_ms) / self._step_ms
        at = min(int(position), len(self._counts) - 2)
        return self._counts[at] + (self._counts[at + 1] - self._counts[at]) * (position - at)


def topic_series(topic: str, what: str) -> str:
    """`topic/{topic}/in`; names are percent-encoded, so that a slash in a name is not a separator."""
    return f"topic/{quote(topic, safe='')}/{what}"


def group_series(group: str, *what: str) -> str:
    """`group/{group}/lag`, or `group/{group}/{topic}/lag`."""
    return "/".join(("group", *(quote(part, safe="") for part in (group, *what))))


class SeriesNames:
    """Tracks active topics: only topics with activity since the start have a curve."""

    def __init__(self) -> None:
        self._active: set[str] = set()

    async def series_of(self, snapshot: ClusterSnapshot) -> dict[str, float]:
        """Values by series, most important first: the history drops the last ones when it is full."""
        values = dict(_of_cluster(snapshot))
        slices = Slices()
        for group in snapshot.groups.values():
            values.update(_of_group(group))
            await slices.rest()
        for topic in snapshot.topics.values():
            if topic.rate_in or topic.rate_out or topic.name in self._active:
                self._active.add(topic.name)
                values.update(_of_topic(topic))
            await slices.rest()
        return values


def _of_cluster(snapshot: ClusterSnapshot) -> Iterator[tuple[str, float]]:
    totals = snapshot.totals
    yield "cluster/offline", totals.offline
    yield "cluster/under_replicated", totals.under_replicated
    yield "cluster/bytes", totals.size
    rates = (("in", totals.rate_in), ("out", totals.rate_out), ("lag", totals.lag))
    yield from ((f"cluster/{name}", value) for name, value in rates if value is not None)
    if totals.worst is not None and totals.worst.seconds is not None:
        yield "cluster/lag_seconds", totals.worst.seconds
    for broker_id, broker in snapshot.brokers.items():
        yield f"broker/{broker_id}/bytes", sum(log_dir.used for log_dir in broker.log_dirs)
        yield f"broker/{broker_id}/leaders", broker.leaders
        if broker.loop_busy is not None:
            yield f"broker/{broker_id}/loop_busy", broker.loop_busy
        if broker.produce_p99_ms is not None:
            yield f"broker/{broker_id}/p99", broker.produce_p99_ms


def _of_group(group: GroupSample) -> Iterator[tuple[str, float]]:
    if group.lag is not None:
        yield group_series(group.name, "lag"), group.lag
    if group.lag_seconds is not None:
        yield group_series(group.name, "lag_seconds"), group.lag_seconds
    if group.rate is not None:
        yield group_series(group.name, "rate"), group.rate
    yield from ((group_series(group.name, topic.topic, "lag"), topic.lag) for topic in group.topics)


def _of_topic(topic: TopicSample) -> Iterator[tuple[str, float]]:
    if topic.rate_in is not None:
        yield topic_series(topic.name, "in"), topic.rate_in
    if topic.rate_out is not None:
        yield topic_series(topic.name, "out"), topic.rate_out
    if topic.size >= 0:
        yield topic_series(topic.name, "bytes"), topic.size
