"""One refresh: requests to the cluster, and a snapshot of the responses.

Commits are read before end offsets: records written in between count as lag, and no group appears ahead of its log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from math import isnan
from typing import NamedTuple, TypeVar

from barnabas.client import Client
from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.common.clock import Clock
from barnabas.common.types import TopicPartition, Uuid
from barnabas.services.console.sampling.broker_health import UNKNOWN_HEALTH, HealthReader
from barnabas.services.console.sampling.commits import NO_GROUPS, NOWHERE, Groups, read_groups
from barnabas.services.console.sampling.end_times import EndTimes, record_times
from barnabas.services.console.sampling.lag import committed_between, measure_group, worse
from barnabas.services.console.sampling.offsets import Columns, Failures, Numbers, extended, read_offsets
from barnabas.services.console.sampling.sizes import NO_SIZES, read_sizes
from barnabas.services.console.sampling.snapshot import (
    UNKNOWN,
    BrokerSample,
    ClusterSnapshot,
    GroupSample,
    Slices,
    TopicSample,
    Totals,
    WorstLag,
)
from barnabas.services.console.sampling.topology import ClusterTopology, TopicLayout, read_topology

# -- Totals of a cluster, computed once per snapshot ---------------------------------------------------

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
    """Sum of the known values; None if all are unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _worst(groups: Iterable[GroupSample]) -> WorstLag | None:
    found: WorstLag | None = None
    for group in groups:
        if group.lag:
            found = worse(found, WorstLag(group.name, group.lag, group.lag_seconds))
    return found


MANY_PARTITIONS = 5000
SLOW_EVERY = 6
"""With many partitions, sizes and start offsets are read in every sixth refresh: once a minute."""
LOOKUPS = 20
"""Records fetched per refresh to determine their age."""
LOOK_AGAIN = 60
"""Refreshes until a topic without a result is retried: the console may lack READ on it, and brokers log each denied
request."""


class Refresh:
    """Takes snapshots, keeping the previous values for comparison."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._count = 0
        self._times = EndTimes()
        self._health = HealthReader(client)
        self._groups: Groups = NO_GROUPS
        self._ends: Numbers = {}
        self._starts: Numbers = {}
        self._sizes = NO_SIZES
        self._ends_ms = 0
        self._ids: dict[str, Uuid] = {}
        self._silent: set[str] = set()

    async def take(self, before: ClusterSnapshot) -> ClusterSnapshot:
        began = self._clock.monotonic()
        topology = await read_topology(self._client)
        names = {layout.id: name for name, layout in topology.topics.items()}
        self._forget_topics_made_anew(topology)
        groups_before, self._groups = self._groups, await read_groups(self._client, names, self._groups)
        ends_before, ends_ms_before = self._ends, self._ends_ms
        failures = {**self._groups.failures, **await self._read_ends(topology)}
        failures |= await self._read_slow_things(topology)
        seconds = (self._ends_ms - ends_ms_before) / 1000 if ends_ms_before else 0.0
        moved = await self._moved(groups_before)
        groups = await self._measure_groups(self._groups.listed, moved, seconds)
        looked_at = await self._look_at_records(groups)
        groups |= await self._measure_groups(looked_at, moved, seconds)
        topics = await self._measure_topics(topology, ends_before, moved, seconds)
        worst = await _worst_by_topic(groups)
        return ClusterSnapshot(
            taken_ms=self._ends_ms,
            cluster_id=topology.cluster_id,
            controller=topology.controller,
            brokers=await self._measure_brokers(topology, failures),
            topics=topics,
            groups=groups,
            worst=worst,
            totals=await totals_of(topics, groups),
            seconds=self._clock.monotonic() - began,
            error=_sentence(failures),
        )

    def _forget_topics_made_anew(self, topology: ClusterTopology) -> None:
        """Drop offsets and history of topics that were deleted and recreated."""
        for name in [
            name for name, layout in topology.topics.items() if self._ids.get(name, layout.id) != layout.id
        ]:
            self._times.forget(name)
            self._ends = {topic: ends for topic, ends in self._ends.items() if topic != name}
            self._starts = {topic: starts for topic, starts in self._starts.items() if topic != name}
        self._ids = {name: layout.id for name, layout in topology.topics.items()}

    async def _read_ends(self, topology: ClusterTopology) -> Failures:
        columns = Columns(topology.topics, self._ends)
        self._ends_ms = self._clock.now_ms()
        failures = await read_offsets(self._client, topology, LATEST, columns)
        self._ends = await columns.numbers()
        slices = Slices()
        for name, ends in self._ends.items():
            self._times.note(name, self._ends_ms, ends)
            await slices.rest()
        self._times.keep(topology.topics.keys())
        return failures

    async def _read_slow_things(self, topology: ClusterTopology) -> Failures:
        due = self._count % SLOW_EVERY == 0 or topology.partition_count <= MANY_PARTITIONS
        self._count += 1
        columns = Columns(topology.topics, self._starts)
        failures = await read_offsets(self._client, topology, EARLIEST, columns) if due else {}
        self._starts = await columns.numbers()
        if not due:
            return failures
        self._sizes = await read_sizes(self._client, topology, self._sizes)
        return {**self._sizes.failures, **failures}

    async def _moved(self, before: Groups) -> dict[str, dict[str, int]]:
        """Records committed by each group since the previous refresh, by topic."""
        slices = Slices()
        moved = {}
        for name, positions in self._groups.positions.items():
            known = before.positions.get(name)
            if known is not None:
                moved[name] = committed_between(known, positions)
            await slices.rest()
        return moved

    async def _measure_groups(
        self, names: Iterable[str], moved: Mapping[str, dict[str, int]], seconds: float
    ) -> dict[str, GroupSample]:
        slices = Slices()
        found = {}
        for name in names:
            group = self._groups.listed[name]
            positions = self._groups.positions.get(name, NOWHERE)
            rate = sum(moved[name].values()) / seconds if name in moved and seconds else None
            found[name] = measure_group(group, positions, self._ends, self._times, self._ends_ms, rate)
            await slices.rest()
        return found

    async def _measure_topics(
        self, topology: ClusterTopology, before: Numbers, moved: Mapping[str, dict[str, int]], seconds: float
    ) -> dict[str, TopicSample]:
        out: dict[str, int] = defaultdict(int)
        for topics in moved.values():
            for topic, records in topics.items():
                out[topic] += records
        slices = Slices()
        found = {}
        for name, layout in topology.topics.items():
            written = written_between(before.get(name), self._ends[name]) if seconds else None
            rate_in = written / seconds if written is not None else None
            rate_out = out[name] / seconds if name in out and seconds else None
            found[name] = self._topic(layout, rate_in, rate_out)
            await slices.rest()
        return found

    def _topic(self, layout: TopicLayout, rate_in: float | None, rate_out: float | None) -> TopicSample:
        name = layout.name
        sizes = self._sizes.leaders.get(name, ())
        if len(sizes) != len(layout.partitions):
            sizes = tuple(extended(sizes, len(layout.partitions)))
        return TopicSample(
            *(name, layout.id, layout.internal, layout.partitions),
            *(self._starts[name], self._ends[name], sizes),
            size=self._sizes.topics.get(name, UNKNOWN),
            rate_in=rate_in,
            rate_out=rate_out,
        )

    async def _measure_brokers(
        self, topology: ClusterTopology, failures: Failures
    ) -> dict[int, BrokerSample]:
        leaders: dict[int, int] = defaultdict(int)
        replicas: dict[int, int] = defaultdict(int)
        health = await self._health.read(topology.brokers)
        slices = Slices()
        for layout in topology.topics.values():
            for partition in layout.partitions:
                leaders[partition.leader] += 1
                for broker_id in partition.replicas:
                    replicas[broker_id] += 1
            await slices.rest()
        return {
            broker_id: BrokerSample(
                *(broker, leaders[broker_id], replicas[broker_id]),
                log_dirs=self._sizes.log_dirs.get(broker_id, ()),
                error=failures.get(broker_id, ""),
                **health.get(broker_id, UNKNOWN_HEALTH)._asdict(),
            )
            for broker_id, broker in sorted(topology.brokers.items())
        }

    async def _look_at_records(self, groups: Mapping[str, GroupSample]) -> list[str]:
        """Fetch records whose age the end offset history does not cover; return the groups with a newly known lag."""
        if self._count % LOOK_AGAIN == 0:
            self._silent.clear()
        unknown = [age for age in await _of_unknown_age(groups) if age.tp.topic not in self._silent]
        wanted = nlargest(LOOKUPS, unknown, key=lambda age: age.lag)
        offsets = {age.tp: age.committed for age in wanted}
        found = await record_times(self._client, offsets)
        for tp, ms in found.items():
            self._times.note_record(tp, offsets[tp], ms)
        self._silent |= {tp.topic for tp in offsets} - {tp.topic for tp in found}
        return list({age.group: None for age in unknown if age.tp in found})


class _UnknownAge(NamedTuple):
    group: str
    tp: TopicPartition
    committed: int
    lag: int


def written_between(before: Sequence[int] | None, after: Sequence[int]) -> int | None:
    """Records written to a topic between two samples of its end offsets; None without a previous sample."""
    if before is None:
        return None
    if before == after:
        return 0
    steps = [new - old for old, new in zip(before, after, strict=False) if old >= 0 and new >= 0]
    return sum(step for step in steps if step > 0)


async def _of_unknown_age(groups: Mapping[str, GroupSample]) -> list[_UnknownAge]:
    slices = Slices()
    found = []
    for group in groups.values():
        for topic in group.topics:
            if isnan(sum(topic.seconds)):
                found += [
                    _UnknownAge(group.name, TopicPartition(row.topic, row.partition), row.committed, row.lag)
                    for row in topic.partitions()
                    if row.lag and row.seconds is None
                ]
        await slices.rest()
    return found


async def _worst_by_topic(groups: Mapping[str, GroupSample]) -> dict[str, WorstLag]:
    slices = Slices()
    worst: dict[str, WorstLag] = {}
    for group in groups.values():
        for topic in group.topics:
            lag = WorstLag(group.name, topic.lag, topic.lag_seconds)
            worst[topic.topic] = worse(worst.get(topic.topic), lag)
        await slices.rest()
    return worst


def _sentence(failures: Failures) -> str:
    if not failures:
        return ""
    brokers = ", ".join(map(str, sorted(failures)))
    noun = "broker" if len(failures) == 1 else "brokers"
    return f"Figures of {noun} {brokers} are older: {next(iter(failures.values()))}."
