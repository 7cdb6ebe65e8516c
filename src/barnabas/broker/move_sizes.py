"""Bytes copied by the controller's reassignments, for its log. The sizes are requested from the partition leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

from barnabas.cluster import Peers
from barnabas.cluster.image import NO_LEADER, MetadataImage
from barnabas.common.errors import KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

EARLIEST = -2
VERSION = 11  # of ListOffsets
ASK_SECONDS = 3.0
"""Timeout of the requests: reassignments must not wait long for a log message."""

Targets = Mapping[TopicPartition, tuple[int, ...]]


class MoveSize(NamedTuple):
    """Total over all replicas to be added."""

    replicas: int
    copies: Mapping[TopicPartition, int]
    """Bytes, by partition."""
    remote_bytes: int
    unknown: int
    """Partitions whose leader did not report a size."""

    def __str__(self) -> str:
        text = f"{self.replicas} replicas copy {sum(self.copies.values()):,} bytes"
        if self.remote_bytes:
            text += f"; {self.remote_bytes:,} in the object store need no copy"
        return text + (f" (without {self.unknown} partitions of unknown size)" if self.unknown else "")


SizeOfMoves = Callable[[MetadataImage, Targets], Awaitable[MoveSize]]


async def size_of_moves(peers: Peers, image: MetadataImage, targets: Targets) -> MoveSize:
    added = {tp: count for tp, after in targets.items() if (count := _added(image, tp, after))}
    by_leader: dict[int, list[TopicPartition]] = {}
    for tp in added:
        state = image.partition(*tp)
        by_leader.setdefault(state.leader if state is not None else NO_LEADER, []).append(tp)
    answers = await asyncio.gather(
        *(_ask(peers, *each) for each in by_leader.items() if each[0] != NO_LEADER)
    )
    known = {tp: sizes for answer in answers for tp, sizes in answer.items()}
    return MoveSize(
        sum(added.values()),
        {tp: known[tp][0] * added[tp] for tp in known},
        sum(known[tp][1] * added[tp] for tp in known),
        len(added.keys() - known.keys()),
    )


def _added(image: MetadataImage, tp: TopicPartition, after: Iterable[int]) -> int:
    state = image.partition(*tp)
    return len(set(after) - set(state.replicas)) if state is not None else 0


async def _ask(
    peers: Peers, leader: int, partitions: list[TopicPartition]
) -> dict[TopicPartition, tuple[int, int]]:
    """Return (bytes to copy, remote bytes) of each partition; partitions of unknown size are missing."""
    topics: dict[str, ListOffsetsTopic] = {}
    for name, index in partitions:
        topic = topics.setdefault(name, ListOffsetsTopic(name=name, partitions=[]))
        topic.partitions.append(ListOffsetsPartition(index, -1, EARLIEST))
    request = ListOffsetsRequest(replica_id=-1, topics=list(topics.values()), barnabas_tiers=True)
    try:
        async with asyncio.timeout(ASK_SECONDS):
            response: ListOffsetsResponse = await peers.send(leader, request, VERSION)
    except (KafkaError, TimeoutError):
        return {}
    return {
        TopicPartition(topic.name, each.partition_index): (
            each.barnabas_tier.replica_bytes,
            0 if each.barnabas_tier.whole else max(each.barnabas_tier.remote_bytes, 0),
        )
        for topic in response.topics
        for each in topic.partitions
        if each.barnabas_tier.replica_bytes >= 0
    }
