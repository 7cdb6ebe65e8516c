"""Immutable snapshot of a cluster; the sampler takes a new one every few seconds.

A cluster may have tens of thousands of partitions, so their figures are tuples of numbers indexed by partition.
`TopicSample.partitions()` and `GroupSample.partitions()` build rows on demand. The garbage collector does not track
tuples of numbers; traversing that many objects would delay pages. An offset or a size of -1 is unknown.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

import msgspec

from barnabas.client import BrokerMetadata
from barnabas.common.types import TopicPartition, Uuid

# -- Long-running work in slices of a few milliseconds, yielding to the loop in between ----------------

MAX = 0.004


class Slices:
    """Time slices of a long-running task: `await slices.rest()` after each step."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = time.perf_counter() + MAX

    async def rest(self) -> None:
        """Yield to the event loop if the current slice is used up."""
        if time.perf_counter() >= self._until:
            await asyncio.sleep(0)
            self._until = time.perf_counter() + MAX


UNKNOWN = -1

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"


class PartitionLayout(msgspec.Struct, frozen=True, gc=False):
    """Leader and replicas of a partition, from Metadata."""

    index: int
    leader: int
    """-1 without a leader."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


class PartitionSample(NamedTuple):
    partition: int
    leader: int
    """-1 without a leader."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    start: int
    end: int
    """The high watermark."""
    size: int
    """Bytes of the leader's replica."""


class TopicSample(msgspec.Struct, frozen=True, gc=False):
    name: str
    id: Uuid
    internal: bool
    layout: tuple[PartitionLayout, ...]
    """Leader, replicas and ISR, by partition number."""
    starts: Sequence[int]
    ends: Sequence[int]
    sizes: Sequence[int]
    """Bytes of the leader's replica."""
    size: int
    """Bytes of all replicas; -1 if unknown."""
    rate_in: float | None
    """Records written per second; None until there are two samples."""
    rate_out: float | None
    """Records committed per second by all groups together; None without groups."""

    def partitions(self) -> Iterator[PartitionSample]:
        for partition, start, end, size in zip(self.layout, self.starts, self.ends, self.sizes, strict=True):
            yield PartitionSample(
                partition.index, partition.leader, partition.replicas, partition.isr, start, end, size
            )

    @property
    def is_internal(self) -> bool:
        """True also for names with an underscore, such as `_schemas`: brokers mark only some topics."""
        return self.internal or self.name.startswith("_")

    @property
    def records(self) -> int:
        """Offsets between start and end, including records removed by compaction."""
        return sum(end - max(start, 0) for start, end in zip(self.starts, self.ends, strict=True) if end > 0)

    @property
    def offline(self) -> int:
        return sum(partition.leader < 0 for partition in self.layout)

    @property
    def under_replicated(self) -> int:
        return sum(len(partition.isr) < len(partition.replicas) for partition in self.layout)


class GroupPartition(NamedTuple):
    """Committed offset and lag of a group in one partition. Partitions without a commit have no row."""

    topic: str
    partition: int
    committed: int
    """For a share group: start offset of the share partition."""
    end: int
    lag: int | None
    """None if the end offset is unknown."""
    seconds: float | None
    """Age of the oldest uncommitted record; 0 without lag, None if unknown."""


class GroupTopic(msgspec.Struct, frozen=True, gc=False):
    """Commits of a group in one topic, as parallel columns sorted by partition."""

    topic: str
    indexes: Sequence[int]
    committed: Sequence[int]
    ends: Sequence[int]
    lags: Sequence[int]
    seconds: Sequence[float]
    """NaN if unknown."""

    @property
    def lag(self) -> int:
        return sum(lag for lag in self.lags if lag > 0)

    @property
    def lag_seconds(self) -> float | None:
        known = [seconds for seconds in self.seconds if seconds == seconds]  # NaN differs from itself
        return max(known, default=None)

    def partitions(self) -> Iterator[GroupPartition]:
        columns = zip(self.indexes, self.committed, self.ends, self.lags, self.seconds, strict=True)
        for index, committed, end, lag, seconds in columns:
            known_lag = lag if lag >= 0 else None
            age = seconds if seconds == seconds else None
            yield GroupPartition(self.topic, index, committed, end, known_lag, age)


class GroupSample(msgspec.Struct, frozen=True, gc=False):
    name: str
    type: str
    """classic, consumer, share or streams."""
    state: str
    protocol: str
    coordinator: int
    topics: tuple[GroupTopic, ...]
    """Topics with committed offsets, sorted by name."""
    lag: int | None
    """Records, over all partitions with a commit; None without commits."""
    lag_seconds: float | None
    """Lag of the worst partition; None if unknown."""
    rate: float | None
    """Records committed per second; None until there are two samples."""

    def partitions(self) -> Iterator[GroupPartition]:
        for topic in self.topics:
            yield from topic.partitions()

    def within(self, topics: Set[str]) -> GroupSample:
        """Restrict the offsets to these topics."""
        return msgspec.structs.replace(
            self, topics=tuple(each for each in self.topics if each.topic in topics)
        )


class LogDirSample(NamedTuple):
    path: str
    used: int
    """Bytes of all replicas in the log dir."""
    total: int
    """Size of the volume; -1 if the broker does not report it."""
    usable: int
    error: str


class BrokerSample(msgspec.Struct, frozen=True):
    broker: BrokerMetadata
    leaders: int
    replicas: int
    log_dirs: tuple[LogDirSample, ...]
    error: str
    """Error message if the broker did not answer; its figures are then those of the last response."""
    loop_busy: float | None = None
    """Per cent of the time; None unless the broker is Barnabas and serves metrics."""
    produce_p99_ms: float | None = None
    under_min_isr: tuple[TopicPartition, ...] = ()
    certificate_expiry: float | None = None
    """Epoch seconds."""
    audit_lost: float = 0.0
    """Audit events lost in the last ten minutes."""


class WorstLag(NamedTuple):
    group: str
    lag: int
    seconds: float | None


class Totals(NamedTuple):
    """Totals of the cluster; None if unknown."""

    partitions: int = 0
    offline: int = 0
    """Partitions without a leader."""
    under_replicated: int = 0
    size: int = 0
    """Bytes of all replicas."""
    rate_in: float | None = None
    rate_out: float | None = None
    lag: int | None = None
    """Records, summed over all groups."""
    worst: WorstLag | None = None
    """Group with the largest lag in seconds, or in records if seconds are unknown."""


class ClusterSnapshot(msgspec.Struct, frozen=True):
    taken_ms: int = 0
    """0 before the first snapshot."""
    cluster_id: str = ""
    controller: int = -1
    brokers: Mapping[int, BrokerSample] = {}
    topics: Mapping[str, TopicSample] = {}
    """Sorted by name, like `groups`."""
    groups: Mapping[str, GroupSample] = {}
    worst: Mapping[str, WorstLag] = {}
    """Group with the largest lag, by topic."""
    totals: Totals = Totals()
    seconds: float = 0.0
    """Duration of the refresh."""
    error: str = ""
    """Reason why the snapshot is outdated or incomplete, as a sentence; empty if it is neither."""

    @property
    def age(self) -> float:
        """Seconds since it was taken."""
        return max(0.0, time.time() - self.taken_ms / 1000) if self.taken_ms else 0.0

    @property
    def is_empty(self) -> bool:
        return not self.taken_ms
