"""kafka_exporter's metrics on a standalone broker, computed on each scrape (`barnabas.metrics.exporter`).

In a cluster every broker has the whole image and dashboards would count each value several times. There
`barnabas console` serves these metrics, including the lag in seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple, Protocol

from barnabas.broker.coordinators import Coordinators
from barnabas.cluster.image import EMPTY_IMAGE, MetadataImage, PartitionState
from barnabas.config.broker import BrokerConfig
from barnabas.groups import Group, GroupShard, ModernGroup
from barnabas.groups.classic import ClassicGroup
from barnabas.metrics import Metric, Registry, Sample
from barnabas.metrics import exporter_catalogue as catalogue
from barnabas.replication import Partition, ReplicaManager

MAX_OFFSETS = 100_000
"""Limit of committed offsets reported per partition, about 20 MB of text. Sums include all of them."""


class ExporterNeeds(Protocol):
    """Parts of the broker read by these metrics."""

    @property
    def config(self) -> BrokerConfig: ...
    @property
    def coordinators(self) -> Coordinators: ...
    @property
    def image(self) -> MetadataImage: ...
    @property
    def node_id(self) -> int: ...
    @property
    def replicas(self) -> ReplicaManager: ...


def serves_exporter_metrics(config: BrokerConfig) -> bool:
    wanted = config["barnabas.metrics.exporter"]
    return not config["zookeeper.connect"] if wanted == "auto" else bool(wanted == "on")


def declare_exporter_metrics(registry: Registry, broker: ExporterNeeds) -> None:
    _declare_topics(registry, broker)
    groups = _Groups(broker)
    registry.computed(catalogue.GROUP_OFFSET, lambda: groups.by_partition(lambda each: each.offset))
    registry.computed(catalogue.GROUP_LAG, lambda: groups.by_partition(lambda each: each.lag))
    registry.computed(catalogue.GROUP_OFFSET_SUM, lambda: groups.by_topic(lambda each: each.offset))
    registry.computed(catalogue.GROUP_LAG_SUM, lambda: groups.by_topic(lambda each: each.lag))
    registry.computed(catalogue.GROUP_MEMBERS, groups.members)


# Brokers and topics


def _declare_topics(registry: Registry, broker: ExporterNeeds) -> None:
    of_states: dict[Metric, Callable[[PartitionState], int]] = {
        catalogue.LEADER_IS_PREFERRED: lambda state: state.leader == state.preferred_leader,
        catalogue.REPLICAS: lambda state: len(state.replicas),
        catalogue.IN_SYNC_REPLICAS: lambda state: len(state.isr),
        catalogue.UNDER_REPLICATED: lambda state: len(state.isr) < len(state.replicas),
    }
    of_led: dict[Metric, Callable[[Partition], int]] = {
        catalogue.CURRENT_OFFSET: lambda partition: partition.log.high_watermark,
        catalogue.OLDEST_OFFSET: lambda partition: partition.log.log_start_offset,
    }

    def image() -> MetadataImage:
        """One of several processes of a node reports what all of them know: the controller."""
        own, controller = broker.image.brokers.get(broker.node_id), broker.image.controller_id
        is_silent = own is not None and own.node >= 0 and controller != broker.node_id
        return EMPTY_IMAGE if is_silent else broker.image

    registry.computed(catalogue.BROKERS, lambda: _broker_count(image()))
    registry.computed(catalogue.BROKER_INFO, lambda: _brokers(image()))
    registry.computed(catalogue.TOPIC_PARTITIONS, lambda: _partition_counts(image()))
    registry.computed(catalogue.LEADER, lambda: _leaders(image()))
    for metric, of_state in of_states.items():
        registry.computed(metric, _each_state(image, of_state))
    for metric, of_partition in of_led.items():
        registry.computed(metric, _each_led(broker, of_partition))


def _broker_count(image: MetadataImage) -> Iterator[Sample]:
    if image.brokers:
        yield Sample("", (), len(image.brokers))


def _brokers(image: MetadataImage) -> Iterator[Sample]:
    for broker in image.brokers.values():
        for endpoint in broker.endpoints[:1]:
            labels = (("id", str(broker.id)), ("address", f"{endpoint.host}:{endpoint.port}"))
            yield Sample("", labels, 1)


def _partition_counts(image: MetadataImage) -> Iterator[Sample]:
    for name, topic in image.topics.items():
        yield Sample("", (("topic", name),), len(topic.partitions))


def _leaders(image: MetadataImage) -> Iterator[Sample]:
    """Leader of each partition; partitions without a leader have no sample."""
    for topic, index, state in image.partitions():
        if state.leader >= 0:
            yield Sample("", (("topic", topic.name), ("partition", str(index))), state.leader)


def _each_state(
    image: Callable[[], MetadataImage], read: Callable[[PartitionState], int]
) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        for topic, index, state in image().partitions():
            yield Sample("", (("topic", topic.name), ("partition", str(index))), int(read(state)))

    return samples


def _each_led(broker: ExporterNeeds, read: Callable[[Partition], int]) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        for partition in list(broker.replicas):
            if partition.is_leader:
                labels = (("topic", partition.topic), ("partition", str(partition.index)))
                yield Sample("", labels, read(partition))

    return samples


# Groups


class _Position(NamedTuple):
    topic: str
    partition: int
    offset: int
    lag: int


class _Groups:
    """Groups coordinated by this broker, with their committed offsets of partitions led here."""

    def __init__(self, broker: ExporterNeeds) -> None:
        self._broker = broker

    def by_partition(self, read: Callable[[_Position], int]) -> Iterator[Sample]:
        return islice(self._by_partition(read), MAX_OFFSETS)

    def _by_partition(self, read: Callable[[_Position], int]) -> Iterator[Sample]:
        for group, position in self._all():
            labels = (
                ("consumergroup", group),
                ("topic", position.topic),
                ("partition", str(position.partition)),
            )
            yield Sample("", labels, read(position))

    def by_topic(self, read: Callable[[_Position], int]) -> Iterator[Sample]:
        for shard in self._shards():
            for group in shard.offsets.groups():
                sums: defaultdict[str, int] = defaultdict(int)
                for position in self._positions(shard, group):
                    sums[position.topic] += read(position)
                for topic, total in sums.items():
                    yield Sample("", (("consumergroup", group), ("topic", topic)), total)

    def members(self) -> Iterator[Sample]:
        for shard in self._shards():
            for group in list(shard.groups.values()):
                yield Sample("", (("consumergroup", group.group_id),), _member_count(group))

    def _all(self) -> Iterator[tuple[str, _Position]]:
        for shard in self._shards():
            for group in shard.offsets.groups():
                for position in self._positions(shard, group):
                    yield group, position

    def _positions(self, shard: GroupShard, group: str) -> Iterator[_Position]:
        for (topic, index), committed in list(shard.offsets.of_group(group).items()):
            partition = self._broker.replicas.find(topic, index)
            if partition is not None and partition.is_leader:
                lag = partition.log.high_watermark - committed.offset
                yield _Position(topic, index, committed.offset, lag)

    def _shards(self) -> Iterator[GroupShard]:
        return (shard for _, shard in self._broker.coordinators.groups.runtime.shards())


def _member_count(group: Group) -> int:
    return len(group.members) if isinstance(group, ClassicGroup | ModernGroup) else 0
