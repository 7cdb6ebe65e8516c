"""What was seen of a cluster at one moment. Nothing in it changes; the sampler makes a new one every few seconds.

A cluster may have tens of thousands of partitions, so what is known of them lies in tuples of numbers, by partition
number; `TopicSample.partitions()` and `GroupSample.partitions()` make rows of them for whoever shows some. The garbage
collector does not look into tuples of numbers; into so many objects it would look for longer than a page may wait.
An offset or a size of -1 is not known.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

import msgspec

from barnabas.client import BrokerMetadata
from barnabas.common.types import Uuid

# -- Work that gives the loop back after some milliseconds, however much there is of it ----------------

MAX = 0.004


class Slices:
    """One for each piece of long work: `await slices.rest()` after each step of it."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = time.perf_counter() + MAX

    async def rest(self) -> None:
        """Returns at once while the slice is not over."""
        if time.perf_counter() >= self._until:
            await asyncio.sleep(0)
            self._until = time.perf_counter() + MAX


UNKNOWN = -1

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"


class PartitionLayout(msgspec.Struct, frozen=True, gc=False):
    """Leader and replicas of a partition, from Metadata."""

    index: int
    leader: int
    """-1 when there is none."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


class PartitionSample(NamedTuple):
    partition: int
    leader: int
    """-1 when there is none."""
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
    """Bytes of all replicas together; -1 while it is not known."""
    rate_in: float | None
    """Records written a second; None until there are two samples."""
    rate_out: float | None
    """Records a second that groups have committed, all groups together; None without groups."""

    def partitions(self) -> Iterator[PartitionSample]:
        for partition, start, end, size in zip(self.layout, self.starts, self.ends, self.sizes, strict=True):
            yield PartitionSample(
                partition.index, partition.leader, partition.replicas, partition.isr, start, end, size
            )

    @property
    def records(self) -> int:
        """Offsets between start and end: what compaction has removed is counted, too."""
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
    """Of a share group: where its share partition starts."""
    end: int
    lag: int | None
    """None while the end is not known."""
    seconds: float | None
    """Age of the oldest record that is not done; 0 without lag, None while it is not known."""


class GroupTopic(msgspec.Struct, frozen=True, gc=False):
    """The commits of a group in one topic; the columns belong together, sorted by partition."""

    topic: str
    indexes: Sequence[int]
    committed: Sequence[int]
    ends: Sequence[int]
    lags: Sequence[int]
    seconds: Sequence[float]
    """NaN is not known."""

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
    """Where it has committed, sorted by name."""
    lag: int | None
    """Records, over all partitions with a commit; None if there is none."""
    lag_seconds: float | None
    """The worst partition's; None if it is not known."""
    rate: float | None
    """Records a second that it commits; None until there are two samples."""

    def partitions(self) -> Iterator[GroupPartition]:
        for topic in self.topics:
            yield from topic.partitions()

    def within(self, topics: Set[str]) -> GroupSample:
        """Without its offsets in other topics."""
        return msgspec.structs.replace(
            self, topics=tuple(each for each in self.topics if each.topic in topics)
        )


class LogDirSample(NamedTuple):
    path: str
    used: int
    """Bytes of all replicas in it."""
    total: int
    """Of the volume; -1 if the broker does not say."""
    usable: int
    error: str


class BrokerSample(msgspec.Struct, frozen=True):
    broker: BrokerMetadata
    leaders: int
    replicas: int
    log_dirs: tuple[LogDirSample, ...]
    error: str
    """A sentence when it did not answer; what is told of it is then what it said last."""
    loop_busy: float | None = None
    """Per cent of the time, if it is Barnabas and serves metrics."""
    produce_p99_ms: float | None = None


class WorstLag(NamedTuple):
    group: str
    lag: int
    seconds: float | None


class Totals(NamedTuple):
    """Of the whole cluster. What is not known is None."""

    partitions: int = 0
    offline: int = 0
    """Partitions without a leader."""
    under_replicated: int = 0
    size: int = 0
    """Bytes of all replicas."""
    rate_in: float | None = None
    rate_out: float | None = None
    lag: int | None = None
    """Records, of all groups together."""
    worst: WorstLag | None = None
    """The group that is most seconds behind, or most records where seconds are not known."""


class ClusterSnapshot(msgspec.Struct, frozen=True):
    taken_ms: int = 0
    """0: there is none yet."""
    cluster_id: str = ""
    controller: int = -1
    brokers: Mapping[int, BrokerSample] = {}
    topics: Mapping[str, TopicSample] = {}
    """Sorted by name, as the groups are."""
    groups: Mapping[str, GroupSample] = {}
    worst: Mapping[str, WorstLag] = {}
    """By topic: the group that is furthest behind in it."""
    totals: Totals = Totals()
    seconds: float = 0.0
    """How long it took."""
    error: str = ""
    """Why there is no newer one, or what is missing in this one: a sentence. Empty if all is well."""

    @property
    def age(self) -> float:
        """Seconds since it was taken."""
        return max(0.0, time.time() - self.taken_ms / 1000) if self.taken_ms else 0.0

    @property
    def is_empty(self) -> bool:
        return not self.taken_ms
