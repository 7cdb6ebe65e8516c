"""A followed partition: its fetch position as last sent to the leader, and its entry in a fetch request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from barnabas.common.types import Uuid
from barnabas.protocol.messages.fetch import FetchPartition, FetchTopic
from barnabas.replication.partition import Partition

Key: TypeAlias = tuple[Uuid, int]


def key_of(partition: Partition) -> Key:
    return partition.topic_id, partition.index


class FetchPosition(NamedTuple):
    """The fetch position last sent to the leader."""

    leader_epoch: int
    offset: int
    last_epoch: int
    log_start: int


class Followed:
    __slots__ = ("has_own_start", "leader_epoch", "partition", "refusals", "resume_at", "sent")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.sent: FetchPosition | None = None
        self.resume_at = 0.0
        self.refusals = 0  # one after the other
        self.has_own_start = _has_own_start(partition)
        """True until the leader has confirmed the log start of an empty mirror: fetch from the beginning, which is
        below that log start, so that the leader does not count the follower (`has_all_before`)."""

    @property
    def is_written(self) -> bool:
        """Return True if everything fetched is written. The next fetch makes the leader count it."""
        return not self.partition.log.has_pending

    def position(self) -> FetchPosition:
        log, leader_epoch = self.partition.log, self.partition.leader_epoch
        if self.has_own_start:
            return FetchPosition(leader_epoch, 0, log.epochs.latest, log.log_start_offset)
        return FetchPosition(leader_epoch, log.log_end_offset, log.epochs.latest, log.log_start_offset)


def _has_own_start(partition: Partition) -> bool:
    """True for a mirror that may have restarted, as leader, at a log start of the source that no other replica
    has followed yet. The present leader may have written records below it.
    """
    log = partition.log
    return partition.mirror is not None and log.is_empty and not log.epochs.entries


def name_all(partitions: Mapping[Key, Followed], max_bytes: int) -> list[FetchTopic]:
    """Build the fetch entries of all partitions, and remember the positions sent."""
    topics: dict[Uuid, FetchTopic] = {}
    for (topic_id, index), one in partitions.items():
        position = one.sent = one.position()
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = FetchTopic(topic_id=topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=index,
                current_leader_epoch=position.leader_epoch,
                fetch_offset=position.offset,
                last_fetched_epoch=position.last_epoch,
                log_start_offset=position.log_start,
                partition_max_bytes=max_bytes,
            )
        )
    return list(topics.values())


def by_topic(keys: Iterable[Key]) -> dict[Uuid, list[int]]:
    topics: dict[Uuid, list[int]] = {}
    for topic_id, index in keys:
        topics.setdefault(topic_id, []).append(index)
    return topics
