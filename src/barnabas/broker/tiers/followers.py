"""What a follower does for a tiered log.

- Its leader no longer has what comes next on its disk: the log begins again at the tiered end, with epochs and
  producers from the last remote segment, and only the rest is copied from the leader (KIP-405, KIP-1023).
- It asks its leaders now and then how far they have copied (ListOffsets -5), so that its own segments may leave the
  disk. The object store is not asked for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from barnabas.cluster.image import NO_LEADER
from barnabas.cluster.peers import Peers
from barnabas.config.broker import BrokerConfig
from barnabas.errors import KafkaError
from barnabas.log_lines import safe_logger
from barnabas.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.replication.partition import Partition
from barnabas.tiering.reading.remote_log import Bootstrap, RemoteLog
from barnabas.types import TopicPartition

LATEST_TIERED = -5  # KIP-1005
VERSION = 9  # of ListOffsets, which brought it

logger = safe_logger(__name__)


class Host(Protocol):
    @property
    def config(self) -> BrokerConfig: ...
    @property
    def node_id(self) -> int: ...
    @property
    def peers(self) -> Peers: ...


class TieredFollowers:
    def __init__(self, host: Host, remote_of: Callable[[Partition], RemoteLog]) -> None:
        self._host = host
        self._remote_of = remote_of
        self._beginning: dict[TopicPartition, asyncio.Task[None]] = {}

    # -- beginning at the tiered end ------------------------------------------------------------------

    def begin_at_tiered_end(self, partition: Partition) -> None:
        """The leader has said OFFSET_MOVED_TO_TIERED_STORAGE; it will say so again if this fails."""
        place = partition.topic_partition
        if place not in self._beginning:
            task = self._beginning[place] = asyncio.create_task(self._begin(partition))
            task.add_done_callback(lambda _: self._beginning.pop(place, None))

    async def _begin(self, partition: Partition) -> None:
        before = partition.leader_epoch, partition.log.log_end_offset
        partition.counters.built_remote_aux.value += 1
        try:
            found = await self._remote_of(partition).bootstrap()
            now = partition.leader_epoch, partition.log.log_end_offset
            if now == before and not partition.is_leader and not partition.is_retired:
                _start_at(partition, found)
        except KafkaError as error:
            partition.counters.failed_remote_aux.value += 1
            logger.warning("%s cannot begin at its tiered end: %s", partition.topic_partition, error)

    # -- how far leaders have copied ------------------------------------------------------------------

    async def learn_tiered_ends(self, partitions: Callable[[], Iterable[Partition]]) -> None:
        while True:
            await asyncio.sleep(self._host.config["remote.log.manager.task.interval.ms"] / 1000)
            by_leader: dict[int, list[Partition]] = {}
            for partition in partitions():
                leader = partition.state.leader if partition.state is not None else NO_LEADER
                if (
                    leader not in (NO_LEADER, self._host.node_id)
                    and partition.log.config.remote_storage_enable
                ):
                    by_leader.setdefault(leader, []).append(partition)
            for leader, followed in by_leader.items():
                try:
                    await self._ask(leader, followed)
                except KafkaError as error:
                    logger.debug("broker %d does not say what is copied: %s", leader, error)

    async def _ask(self, leader: int, followed: list[Partition]) -> None:
        topics: dict[str, ListOffsetsTopic] = {}
        for each in followed:
            topic = topics.setdefault(each.topic, ListOffsetsTopic(name=each.topic, partitions=[]))
            topic.partitions.append(ListOffsetsPartition(each.index, each.leader_epoch, LATEST_TIERED))
        request = ListOffsetsRequest(replica_id=self._host.node_id, topics=list(topics.values()))
        response: ListOffsetsResponse = await self._host.peers.send(leader, request, VERSION)
        ends = {
            (topic.name, said.partition_index): said.offset + 1
            for topic in response.topics
            for said in topic.partitions
            if not said.error_code and said.offset >= 0
        }
        for each in followed:
            end = ends.get((each.topic, each.index))
            if end is not None and not each.is_leader and not each.is_retired:
                each.log.note_tiered(end)

    async def stop(self) -> None:
        tasks = list(self._beginning.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _start_at(partition: Partition, found: Bootstrap) -> None:
    log = partition.log
    if found.tiered_end <= log.log_end_offset:
        return  # the manifest is behind what the leader has said
    logger.info(
        "%s begins at its tiered end, %d: what is before is in the object store",
        partition.topic_partition,
        found.tiered_end,
    )
    log.start_at(found.tiered_end, found.log_start, found.epochs, found.producers)
    partition.followed_to(found.tiered_end)
