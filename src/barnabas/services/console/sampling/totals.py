"""Sums over a cluster, made once for each snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from barnabas.services.console.sampling.lag import worse
from barnabas.services.console.sampling.slices import Slices
from barnabas.services.console.sampling.snapshot import GroupSample, TopicSample, Totals, WorstLag

Number = TypeVar("Number", int, float)


async def totals_of(topics: Mapping[str, TopicSample], groups: Mapping[str, GroupSample]) -> Totals:
    slices = Slices()
    partitions = offline = under_replicated = size = 0
    for topic in topics.values():
        partitions += len(topic.layout)
        offline += topic.offline
        under_replicated += topic.under_replicated
        size += max(topic.size, 0)
        await slices.rest()
    return Totals(
        *(partitions, offline, under_replicated, size),
        rate_in=_sum(topic.rate_in for topic in topics.values()),
        rate_out=_sum(topic.rate_out for topic in topics.values()),
        lag=_sum(group.lag for group in groups.values()),
        worst=_worst(groups.values()),
    )


def _sum(values: Iterable[Number | None]) -> Number | None:
    """Of what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _worst(groups: Iterable[GroupSample]) -> WorstLag | None:
    found: WorstLag | None = None
    for group in groups:
        if group.lag:
            found = worse(found, WorstLag(group.name, group.lag, group.lag_seconds))
    return found
