"""A curve for display: values at even time steps, with gaps where nothing was recorded."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Curve(msgspec.Struct, frozen=True):
    """`times` are the starts of the steps in epoch milliseconds; a value of None is a gap."""

    times: list[int]
    values: list[float | None]

    @property
    def is_empty(self) -> bool:
        return all(value is None for value in self.values)


def even_curve(samples: Iterable[tuple[int, float]], since_ms: int, until_ms: int, step_ms: int) -> Curve:
    """Mean of each step. A single empty step is interpolated, as a tick may be late."""
    count = max(1, -(-(until_ms - since_ms) // step_ms))
    sums, counts = [0.0] * count, [0] * count
    for ms, value in samples:
        at = (ms - since_ms) // step_ms
        if 0 <= at < count and value == value:  # NaN differs from itself
            sums[at] += value
            counts[at] += 1
    means = [total / number if number else None for total, number in zip(sums, counts, strict=True)]
    times = [since_ms + at * step_ms for at in range(count)]
    return Curve(times, _bridged(means))


def _bridged(values: list[float | None]) -> list[float | None]:
    bridged = list(values)
    for at in range(1, len(values) - 1):
        if values[at] is None and values[at + 1] is not None:
            bridged[at] = values[at - 1]
    return bridged
