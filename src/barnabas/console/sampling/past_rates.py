"""Rates of the time before the console was there: from the offsets that belonged to moments of the past."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from barnabas.client.cluster import Client
from barnabas.client.errors import ClientError
from barnabas.client.offsets import end_offsets, list_offsets
from barnabas.console.history.curve import Curve
from barnabas.errors import KafkaError
from barnabas.types import TopicPartition

POINTS = 72
AT_ONCE = 4
MOST_PARTITIONS = 200
"""Of more, that many searches in time would cost the brokers more than the curve is worth."""
MOST_KEPT = 64
PATIENCE = 5.0


class PastRate(NamedTuple):
    until_ms: int
    rate: float
    """Records a second in the step that ends there."""


class PastRates:
    """Asks once for the same curve; the past does not change."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kept: OrderedDict[tuple[object, ...], list[PastRate]] = OrderedDict()

    async def of(self, places: Sequence[TopicPartition], since_ms: int, until_ms: int) -> list[PastRate]:
        """Nothing if it would be too much work, or if the cluster does not answer in time."""
        if not places or len(places) > MOST_PARTITIONS:
            return []
        step = max(1000, (until_ms - since_ms) // POINTS)
        key = (frozenset(places), step, since_ms // step)
        if key not in self._kept:
            try:
                async with asyncio.timeout(PATIENCE):
                    self._kept[key] = await _past_rates(
                        self._client, places, since_ms - since_ms % step, step
                    )
            except (ClientError, KafkaError, TimeoutError):
                return []
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return self._kept[key]


async def _past_rates(
    client: Client, places: Sequence[TopicPartition], since_ms: int, step_ms: int
) -> list[PastRate]:
    moments = [since_ms + at * step_ms for at in range(POINTS + 1)]
    ends = await end_offsets(client, places)
    limit = asyncio.Semaphore(AT_ONCE)

    async def written_before(moment: int) -> int:
        async with limit:
            found = await list_offsets(client, dict.fromkeys(places, moment))
        return sum(found[place].offset if found[place].offset >= 0 else ends[place] for place in places)

    written = await asyncio.gather(*map(written_before, moments))
    return [
        PastRate(moments[at], max(0, written[at] - written[at - 1]) / (step_ms / 1000))
        for at in range(1, len(moments))
    ]


def with_past(curve: Curve, past: Iterable[PastRate]) -> Curve:
    """What the curve lacks at its beginning, from the past."""
    known = list(past)
    if not known:
        return curve
    first = next((at for at, value in enumerate(curve.values) if value is not None), len(curve.values))
    step = known[1].until_ms - known[0].until_ms if len(known) > 1 else 1
    values = list(curve.values)
    for at in range(first):
        behind = math.floor((curve.times[at] - known[0].until_ms) / step) + 1
        if 0 <= behind < len(known):
            values[at] = known[behind].rate
    return Curve(curve.times, values)
