"""How far the partitions of tiered topics are copied to the object store: Kafka's own APIs, so any cluster's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from barnabas.client.admin import setting_of_topics
from barnabas.client.cluster import Client
from barnabas.client.errors import UnsupportedApiError
from barnabas.client.metadata import Partition, Topic
from barnabas.client.offsets import EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, list_offsets
from barnabas.client.placement.layout import replica_sizes
from barnabas.protocol.messages.offsets import ListOffsetsRequest
from barnabas.types import TopicPartition

TIERED = "remote.storage.enable"
KNOWS_TIERED_END = 9  # the version of ListOffsets that brought LATEST_TIERED (Kafka 3.9)


@dataclass(frozen=True, slots=True)
class PartitionTiers:
    """The two tiers of a partition. None: unknown, because it has no leader or its broker did not say."""

    place: TopicPartition
    leader: int
    log_start: int | None = None
    local_start: int | None = None
    tiered_end: int | None = None
    """The first offset that is not in the store; the log start if nothing is."""
    end: int | None = None
    local_bytes: int | None = None

    @property
    def pending_records(self) -> int | None:
        """Offsets that lie on the leader's disk only."""
        if self.end is None or self.tiered_end is None:
            return None
        return max(self.end - self.tiered_end, 0)

    @property
    def pending_bytes(self) -> int | None:
        """Known if nothing is left to copy, or if the disk holds nothing but what is not copied."""
        if self.pending_records == 0:
            return 0
        if self.local_start is None or self.tiered_end is None or self.local_start < self.tiered_end:
            return None
        return self.local_bytes


async def tiered_topics(client: Client, names: Iterable[str]) -> list[str]:
    """Those of the names whose topics are tiered."""
    wanted = list(names)
    found = await setting_of_topics(client, wanted, TIERED) if wanted else {}
    return [name for name in wanted if found.get(name) == "true"]


async def describe_tiers(client: Client, topics: Iterable[Topic]) -> list[PartitionTiers]:
    """Several requests, so a topic that is written to is seen at several moments."""
    partitions = {
        TopicPartition(topic.name, index): partition
        for topic in topics
        for index, partition in sorted(topic.partitions.items())
    }
    served = [place for place, partition in partitions.items() if partition.leader >= 0]
    # In this order: each can only grow, and none may seem to lie behind the one after it.
    offsets = {moment: await _offsets(client, served, moment) for moment in _MOMENTS}
    sizes = await replica_sizes(client, {partitions[place].leader for place in served})
    return [_tiers(place, partition, offsets, sizes) for place, partition in partitions.items()]


_MOMENTS = (EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, LATEST)


async def _offsets(client: Client, places: list[TopicPartition], moment: int) -> dict[TopicPartition, int]:
    if not places:
        return {}
    if moment == LATEST_TIERED:
        await _check_version(client)
    answers = await list_offsets(client, dict.fromkeys(places, moment))
    return {place: answer.offset for place, answer in answers.items()}


async def _check_version(client: Client) -> None:
    connection = await client.any_connection()
    if connection.version_for(ListOffsetsRequest) < KNOWS_TIERED_END:
        raise UnsupportedApiError(
            f"the broker at {connection.address} does not tell what it has copied (ListOffsets {KNOWS_TIERED_END})"
        )


def _tiers(
    place: TopicPartition,
    partition: Partition,
    offsets: Mapping[int, Mapping[TopicPartition, int]],
    sizes: Mapping[int, Mapping[TopicPartition, int]],
) -> PartitionTiers:
    if place not in offsets[LATEST]:
        return PartitionTiers(place, partition.leader)
    log_start = offsets[EARLIEST][place]
    return PartitionTiers(
        place,
        partition.leader,
        log_start,
        offsets[EARLIEST_LOCAL][place],
        max(offsets[LATEST_TIERED][place] + 1, log_start),
        offsets[LATEST][place],
        sizes.get(partition.leader, {}).get(place),
    )
