"""Partitions of one topic for display: replicas, offsets, sizes and problems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from barnabas.client import Client, ClientError, PartitionMetadata, TopicMetadata, tiered_topics
from barnabas.client.offsets import EARLIEST, LATEST, LATEST_TIERED, list_offsets
from barnabas.client.placement import replica_sizes
from barnabas.client.transactions import producers_of
from barnabas.common.errors import KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.transactions import ProducerState

NO_LEADER, MISSING, NOT_PREFERRED = "offline", "under-replicated", "not the preferred leader"


class PartitionRow(msgspec.Struct):
    partition: int
    leader: int | None
    epoch: int
    replicas: list[int]
    isr: list[int]
    start: int | None
    end: int | None
    bytes: int | None
    """Size of the leader's replica."""
    total_bytes: int | None
    """Size of all replicas."""
    producers: int | None
    """Recently active producers; None if the user may not describe them."""
    open_transactions: int | None
    tiered: int | None
    """The first offset that is not in the object store; None if the topic is not tiered."""
    flags: list[str]

    @property
    def records(self) -> int | None:
        return None if self.end is None or self.start is None else self.end - self.start


class PartitionFigures(NamedTuple):
    """Figures that brokers report for the partitions of a topic, by partition."""

    starts: Mapping[int, int] = {}
    ends: Mapping[int, int] = {}
    sizes: Mapping[int, Mapping[int, int]] = {}
    """By broker, then by partition."""
    producers: Mapping[int, list[ProducerState]] | None = None
    tiered: Mapping[int, int] | None = None


async def read_partitions(
    client: Client, topic: TopicMetadata, *, with_producers: bool
) -> list[PartitionRow]:
    led_indexes = [index for index, partition in topic.partitions.items() if partition.leader >= 0]
    starts = await _offsets(client, topic.name, led_indexes, EARLIEST)
    facts = PartitionFigures(
        starts,
        await _offsets(client, topic.name, led_indexes, LATEST),
        await _sizes(client, topic),
        await _producers(client, topic.name, led_indexes) if with_producers else None,
        await _tiered(client, topic.name, led_indexes),
    )
    return [row_of(partition, facts) for partition in topic.partitions.values()]


def row_of(partition: PartitionMetadata, facts: PartitionFigures) -> PartitionRow:
    index = partition.index
    sizes = {broker: found[index] for broker, found in facts.sizes.items() if index in found}
    producers = facts.producers.get(index) if facts.producers is not None else None
    start = facts.starts.get(index)
    tiered = facts.tiered.get(index) if facts.tiered is not None else None
    return PartitionRow(
        index,
        partition.leader if partition.leader >= 0 else None,
        partition.leader_epoch,
        list(partition.replicas),
        list(partition.isr),
        start,
        facts.ends.get(index),
        sizes.get(partition.leader),
        sum(sizes.values()) if sizes else None,
        None if producers is None else len(producers),
        None if producers is None else sum(each.current_txn_start_offset >= 0 for each in producers),
        None if tiered is None else max(tiered + 1, start or 0),
        flags_of(partition),
    )


def flags_of(partition: PartitionMetadata) -> list[str]:
    found = []
    if partition.leader < 0:
        found.append(NO_LEADER)
    if len(partition.isr) < len(partition.replicas):
        found.append(MISSING)
    if partition.replicas and 0 <= partition.leader != partition.replicas[0]:
        found.append(NOT_PREFERRED)
    return found


async def _offsets(client: Client, topic: str, indexes: list[int], timestamp: int) -> dict[int, int]:
    if not indexes:
        return {}
    found = await list_offsets(client, {TopicPartition(topic, index): timestamp for index in indexes})
    return {tp.partition: answer.offset for tp, answer in found.items()}


async def _sizes(client: Client, topic: TopicMetadata) -> dict[int, dict[int, int]]:
    """Sizes by broker, without brokers that fail, for example because the user may not describe the cluster."""
    brokers = {broker for each in topic.partitions.values() for broker in each.replicas}
    up = sorted(brokers & client.metadata.brokers.keys())
    found = await replica_sizes(client, up, {topic.name: list(topic.partitions)})
    return {broker: {tp.partition: size for tp, size in sizes.items()} for broker, sizes in found.items()}


async def _producers(client: Client, topic: str, indexes: list[int]) -> dict[int, list[ProducerState]] | None:
    try:
        found = await producers_of(client, [TopicPartition(topic, index) for index in indexes])
    except (ClientError, KafkaError):
        return None
    return {tp.partition: producers for tp, producers in found.items()}


async def _tiered(client: Client, topic: str, indexes: list[int]) -> dict[int, int] | None:
    """The last tiered offset; None for a topic that is not tiered, or if the brokers do not report it."""
    try:
        if not await tiered_topics(client, [topic]):
            return None
        return await _offsets(client, topic, indexes, LATEST_TIERED)
    except (ClientError, KafkaError):
        return None
