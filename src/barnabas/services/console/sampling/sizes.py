"""Disk usage of replicas and log dirs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from barnabas.client import Client, error_code, raise_for
from barnabas.protocol.messages.cluster import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from barnabas.services.console.sampling.offsets import Columns, Failures, Numbers, ask_brokers, batches
from barnabas.services.console.sampling.snapshot import LogDirSample, Slices
from barnabas.services.console.sampling.topology import TIMEOUT, ClusterTopology

PARTITIONS_A_REQUEST = 2000


class Sizes(NamedTuple):
    leaders: Numbers
    """Bytes of the leader's replica, by topic and partition number."""
    topics: Mapping[str, int]
    """Bytes of all replicas, by topic."""
    log_dirs: Mapping[int, tuple[LogDirSample, ...]]
    """By broker."""
    failures: Failures


NO_SIZES = Sizes({}, {}, {}, {})


async def read_sizes(client: Client, topology: ClusterTopology, before: Sizes = NO_SIZES) -> Sizes:
    leaders = Columns(topology.topics, before.leaders)
    topics: dict[str, int] = defaultdict(int)
    log_dirs = dict(before.log_dirs)

    async def ask(broker_id: int, wanted: list[DescribableLogDirTopic]) -> None:
        slices = Slices()
        dirs: dict[str, LogDirSample] = {}
        for request in _requests(wanted):
            response: DescribeLogDirsResponse = await client.send_to_broker(broker_id, request, TIMEOUT)
            raise_for(response.error_code, f"broker {broker_id} does not describe its log dirs")
            for result in response.results:
                used = dirs[result.log_dir].used if result.log_dir in dirs else 0
                used += _take(result, broker_id, topology, leaders, topics)
                dirs[result.log_dir] = _log_dir(result, used)
            await slices.rest()
        log_dirs[broker_id] = tuple(dirs[path] for path in sorted(dirs))

    by_broker = await _replicas_by_broker(topology)
    failures = await ask_brokers({broker_id: ask(broker_id, by_broker[broker_id]) for broker_id in by_broker})
    return Sizes(
        await leaders.numbers(),
        topics,
        {id_: log_dirs[id_] for id_ in log_dirs if id_ in topology.brokers},
        failures,
    )


async def _replicas_by_broker(topology: ClusterTopology) -> dict[int, list[DescribableLogDirTopic]]:
    found: dict[int, dict[str, DescribableLogDirTopic]] = {broker_id: {} for broker_id in topology.brokers}
    slices = Slices()
    for name, layout in topology.topics.items():
        for partition in layout.partitions:
            for broker_id in partition.replicas:
                topics = found.get(broker_id)
                if topics is not None:
                    if name not in topics:
                        topics[name] = DescribableLogDirTopic(topic=name)
                    topics[name].partitions.append(partition.index)
        await slices.rest()
    return {broker_id: list(topics.values()) for broker_id, topics in found.items()}


def _requests(wanted: list[DescribableLogDirTopic]) -> Iterator[DescribeLogDirsRequest]:
    """Split into requests; at least one, as a broker without partitions has log dirs too."""
    if not wanted:
        yield DescribeLogDirsRequest(topics=[])
    for batch in batches(wanted, lambda topic: len(topic.partitions), PARTITIONS_A_REQUEST):
        yield DescribeLogDirsRequest(topics=batch)


def _take(
    result: DescribeLogDirsResult,
    broker_id: int,
    topology: ClusterTopology,
    leaders: Columns,
    topics: dict[str, int],
) -> int:
    """Add the sizes of a log dir to `leaders` and `topics`; return the bytes used in it."""
    used = 0
    for topic in result.topics:
        layout = topology.topics[topic.name].partitions
        for partition in topic.partitions:
            used += partition.partition_size
            topics[topic.name] += partition.partition_size
            index = partition.partition_index
            if not partition.is_future_key and layout[index].leader == broker_id:
                leaders.enter(topic.name, index, partition.partition_size)
    return used


def _log_dir(result: DescribeLogDirsResult, used: int) -> LogDirSample:
    error = error_code(result.error_code).name if result.error_code else ""
    return LogDirSample(result.log_dir, used, result.total_bytes, result.usable_bytes, error)
