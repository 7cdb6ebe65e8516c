"""Upload progress of tiered partitions, and the tiered storage status of brokers.

Uses Kafka's APIs, so works with any cluster. Barnabas adds tagged fields to ListOffsets (requires Describe on
the topic) and DescribeLogDirs (Describe on the cluster); other brokers omit them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from barnabas.client.admin import setting_of_topics
from barnabas.client.cluster import Client, raise_for
from barnabas.client.errors import ClientError, UnsupportedApiError
from barnabas.client.metadata import PartitionMetadata, TopicMetadata
from barnabas.client.offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    answers_in,
    list_offsets,
    offsets_request,
)
from barnabas.client.placement.layout import replica_sizes
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.cluster import DescribeLogDirsRequest, DescribeLogDirsResponse
from barnabas.protocol.messages.offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.messages.tiers import BrokerTiers, PartitionTier

TIERED = "remote.storage.enable"
KNOWS_TIERED_END = 9  # the version of ListOffsets that brought LATEST_TIERED (Kafka 3.9)


@dataclass(frozen=True, slots=True)
class PartitionTiers:
    """Local and remote part of a partition. None: unknown (no leader, or not reported)."""

    tp: TopicPartition
    leader: int
    log_start: int | None = None
    local_start: int | None = None
    tiered_end: int | None = None
    """The first offset that is not in the store; the log start if nothing is."""
    end: int | None = None
    local_bytes: int | None = None
    copying: PartitionTier | None = None
    """None if the broker does not report it."""

    @property
    def pending_records(self) -> int | None:
        """Offsets that are only on the leader's disk."""
        if self.end is None or self.tiered_end is None:
            return None
        return max(self.end - self.tiered_end, 0)

    @property
    def pending_bytes(self) -> int | None:
        """Known if everything is copied, if the leader reports it, or if all local segments are uncopied.
        Of a compacted topic only sealed segments count."""
        if self.pending_records == 0:
            return 0
        if self.copying is not None:
            return self.copying.pending_bytes if self.copying.whole else self.copying.replica_bytes
        if self.local_start is None or self.tiered_end is None or self.local_start < self.tiered_end:
            return None
        return self.local_bytes


async def tiered_topics(client: Client, names: Iterable[str]) -> list[str]:
    """Tiered topics among the names."""
    wanted = list(names)
    found = await setting_of_topics(client, wanted, TIERED) if wanted else {}
    return [name for name in wanted if found.get(name) == "true"]


async def configured_as_tiered(client: Client, topics: Iterable[TopicMetadata]) -> list[str]:
    """Tiered topics as leaders report them, for users without DescribeConfigs."""
    partitions = [
        TopicPartition(topic.name, index)
        for topic in topics
        for index, partition in topic.partitions.items()
        if partition.leader >= 0
    ]
    reports = await ask_leaders(client, partitions)
    return sorted({tp.topic for tp, tier in reports.items() if tier.pending_bytes >= 0})


async def find_tiered(client: Client, topics: Mapping[str, TopicMetadata]) -> list[str]:
    """Tiered topics by their settings, or as leaders report them without DescribeConfigs."""
    try:
        return await tiered_topics(client, sorted(topics))
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise
        return await configured_as_tiered(client, topics.values())


async def describe_tiers(client: Client, topics: Iterable[TopicMetadata]) -> list[PartitionTiers]:
    """Describe tiers with several requests: not an atomic snapshot."""
    partitions = {
        TopicPartition(topic.name, index): partition
        for topic in topics
        for index, partition in sorted(topic.partitions.items())
    }
    served = [tp for tp, partition in partitions.items() if partition.leader >= 0]
    # In this order: each offset only grows, and none may appear to be below the next one.
    offsets = {timestamp: await _offsets(client, served, timestamp) for timestamp in _MOMENTS}
    sizes = await replica_sizes(client, {partitions[tp].leader for tp in served})
    reports = await ask_leaders(client, served)
    return [_tiers(tp, partition, offsets, sizes, reports) for tp, partition in partitions.items()]


async def ask_leaders(
    client: Client, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, PartitionTier]:
    """Remote log status by partition, as leaders report it; others are left out."""
    wanted = list(partitions)
    topics = {tp.topic for tp in wanted}
    found: dict[TopicPartition, PartitionTier] = await client.retry(lambda: _ask_once(client, wanted), topics)
    return found


async def _ask_once(client: Client, partitions: list[TopicPartition]) -> dict[TopicPartition, PartitionTier]:
    by_leader: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
    for tp in partitions:
        by_leader[await client.leader(tp)][tp] = EARLIEST
    reports: dict[TopicPartition, PartitionTier] = {}
    for leader, timestamps in by_leader.items():
        request = offsets_request(client, timestamps)
        request.barnabas_tiers = True
        response: ListOffsetsResponse = await client.send_to_broker(leader, request)
        for tp, answer in answers_in(response):
            raise_for(answer.error_code, f"the remote part of {tp}")
            if answer.barnabas_tier.replica_bytes >= 0:
                reports[tp] = answer.barnabas_tier
    return reports


async def ask_brokers(client: Client, brokers: Iterable[int]) -> dict[int, BrokerTiers | str]:
    """Tiered storage of each broker that has some; a text for one that does not respond. KafkaError
    (CLUSTER_AUTHORIZATION_FAILED) without the right to describe the cluster."""
    found: dict[int, BrokerTiers | str] = {}
    for broker in brokers:
        request = DescribeLogDirsRequest(topics=[], barnabas_tiers=True)
        try:
            response: DescribeLogDirsResponse = await client.send_to_broker(broker, request)
        except ClientError as error:
            found[broker] = str(error)
            continue
        raise_for(response.error_code, "tiered storage of brokers")
        if response.barnabas_tiers.enabled:
            found[broker] = response.barnabas_tiers
    return found


async def ask_brokers_if_allowed(client: Client) -> dict[int, BrokerTiers | str] | None:
    """All brokers that are up; None without the right to describe the cluster."""
    try:
        return await ask_brokers(client, sorted(client.metadata.brokers))
    except KafkaError as error:
        if error.code is not ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return None


_MOMENTS = (EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, LATEST)


async def _offsets(
    client: Client, partitions: list[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    if not partitions:
        return {}
    if timestamp == LATEST_TIERED:
        await _check_version(client)
    answers = await list_offsets(client, dict.fromkeys(partitions, timestamp))
    return {tp: answer.offset for tp, answer in answers.items()}


async def _check_version(client: Client) -> None:
    connection = await client.any_connection()
    if connection.version_for(ListOffsetsRequest) < KNOWS_TIERED_END:
        raise UnsupportedApiError(
            f"the broker at {connection.address} does not report tiered offsets (ListOffsets {KNOWS_TIERED_END})"
        )


def _tiers(
    tp: TopicPartition,
    partition: PartitionMetadata,
    offsets: Mapping[int, Mapping[TopicPartition, int]],
    sizes: Mapping[int, Mapping[TopicPartition, int]],
    reports: Mapping[TopicPartition, PartitionTier],
) -> PartitionTiers:
    if tp not in offsets[LATEST]:
        return PartitionTiers(tp, partition.leader)
    log_start = offsets[EARLIEST][tp]
    copying = reports.get(tp)
    tiered_end = offsets[LATEST_TIERED][tp] + 1
    if not tiered_end and copying is not None:  # of a compacted topic ListOffsets says nothing
        tiered_end = min(copying.tiered_end, offsets[LATEST][tp])
    return PartitionTiers(
        tp,
        partition.leader,
        log_start,
        offsets[EARLIEST_LOCAL][tp],
        max(tiered_end, log_start),
        offsets[LATEST][tp],
        sizes.get(partition.leader, {}).get(tp),
        copying,
    )
