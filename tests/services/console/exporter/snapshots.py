"""Snapshots of the sampler, without a cluster."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterable, Mapping

from barnabas.client.addresses import Address
from barnabas.client.metadata import BrokerMetadata
from barnabas.common.types import ZERO_UUID
from barnabas.services.console.sampling.snapshot import (
    BrokerSample,
    ClusterSnapshot,
    GroupSample,
    GroupTopic,
    LogDirSample,
    PartitionLayout,
    TopicSample,
)


def broker(number: int, error: str = "", dirs: tuple[LogDirSample, ...] = ()) -> BrokerSample:
    return BrokerSample(BrokerMetadata(number, Address("kafka", 9090 + number)), 0, 0, dirs, error)


def place(
    index: int, leader: int = 1, isr: tuple[int, ...] = (1,), replicas: tuple[int, ...] = (1,)
) -> PartitionLayout:
    return PartitionLayout(index, leader, 0, replicas, isr, ())


def topic(
    name: str, places: Iterable[PartitionLayout], ends: Iterable[int], starts: Iterable[int] = ()
) -> TopicSample:
    layout, known = tuple(places), array("q", ends)
    begins = array("q", starts) or array("q", [0] * len(layout))
    sizes = array("q", [0] * len(layout))
    return TopicSample(name, ZERO_UUID, False, layout, begins, known, sizes, 0, None, None)


def group(name: str, *topics: GroupTopic, state: str = "Stable", kind: str = "classic") -> GroupSample:
    lags = [each.lag for each in topics]
    seconds = [each.lag_seconds for each in topics if each.lag_seconds is not None]
    return GroupSample(
        name,
        kind,
        state,
        "consumer",
        1,
        topics,
        sum(lags) if lags else None,
        max(seconds, default=None),
        None,
    )


def commits(name: str, rows: Iterable[tuple[int, int, int, float]]) -> GroupTopic:
    """Rows are partition, committed, end, seconds; an end of -1 is not known."""
    indexes, committed, ends, seconds = (list(column) for column in zip(*rows, strict=True))
    lags = [end - at if end >= 0 else -1 for at, end in zip(committed, ends, strict=True)]
    return GroupTopic(
        name,
        array("l", indexes),
        array("q", committed),
        array("q", ends),
        array("q", lags),
        array("d", seconds),
    )


def snapshot(
    brokers: Iterable[BrokerSample] = (),
    topics: Iterable[TopicSample] = (),
    groups: Iterable[GroupSample] = (),
    age: float = 0.0,
) -> ClusterSnapshot:
    by_name: Mapping[str, TopicSample] = {each.name: each for each in topics}
    return ClusterSnapshot(
        taken_ms=int((time.time() - age) * 1000),
        brokers={each.broker.id: each for each in brokers},
        topics=by_name,
        groups={each.name: each for each in groups},
        controller=1,
        seconds=0.25,
    )
