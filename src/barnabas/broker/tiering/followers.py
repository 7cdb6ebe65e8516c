"""What a follower does for a tiered log.

- Its leader no longer has what comes next on its disk: the log begins again behind a remote segment, with epochs and
  producers from there, and only the rest is copied from the leader (KIP-405).
- It is empty: it begins there without having been sent away (KIP-1023).
- It asks its leaders now and then how far they have copied (ListOffsets -5), so that its own segments may leave the
  disk. The object store is not asked for that.

It begins at the tiered end. With `follower.fetch.last.tiered.offset.enable=false` it begins at the local start of its
leader, as Kafka does by default, and copies all that its leader has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from barnabas.cluster import Peers
from barnabas.cluster.image import NO_LEADER
from barnabas.common.cooperative import pieces
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import TopicPartition
from barnabas.config.broker import BrokerConfig
from barnabas.log.tiering import stays_whole
from barnabas.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.replication import Partition
from barnabas.tiering.reading import Bootstrap, RemoteLog

EARLIEST_LOCAL = -4  # KIP-405
LATEST_TIERED = -5  # KIP-1005
VERSION = 9  # of ListOffsets, which brought it
LEADERS_AT_ONCE = 16
"""That are asked how far they have copied: one that is slow does not keep the others waiting."""

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
        self._asked: dict[
            TopicPartition, int
        ] = {}  # leader epochs in which an empty log has asked its leader

    # -- beginning behind remote segments -------------------------------------------------------------

    def moved_to_tiers(self, partition: Partition) -> None:
        """The leader has said OFFSET_MOVED_TO_TIERED_STORAGE; it will say so again if this fails."""
        self._begin(partition, self._begin_behind)

    def waits_for_tiers(self, partition: Partition) -> bool:
        """Records have come for an empty log. Are they worth nothing, because it may begin behind remote segments?
        That is asked once in a leader epoch."""
        tp = partition.topic_partition
        log = partition.log
        is_wanted = log.config.remote_storage_enable and self._from_tiered_end and not stays_whole(log)
        if not is_wanted or self._asked.get(tp) == partition.leader_epoch:
            return False
        self._begin(partition, self._begin_new)
        return True

    @property
    def _from_tiered_end(self) -> bool:
        return bool(self._host.config["follower.fetch.last.tiered.offset.enable"])

    def _begin(self, partition: Partition, work: Callable[[Partition], Awaitable[None]]) -> None:
        tp = partition.topic_partition
        if tp not in self._beginning:
            task = self._beginning[tp] = asyncio.create_task(self._try(partition, work))
            task.add_done_callback(lambda _: self._beginning.pop(tp, None))

    async def _try(self, partition: Partition, work: Callable[[Partition], Awaitable[None]]) -> None:
        partition.counters.built_remote_aux.value += 1
        try:
            await work(partition)
        except KafkaError as error:
            partition.counters.failed_remote_aux.value += 1
            logger.warning("%s cannot begin behind its remote part: %s", partition.topic_partition, error)

    async def _begin_new(self, partition: Partition) -> None:
        epoch = partition.leader_epoch
        if await self._offset_of(partition, LATEST_TIERED) >= partition.log.log_end_offset:
            await self._begin_behind(partition)
        self._asked[partition.topic_partition] = epoch

    async def _begin_behind(self, partition: Partition) -> None:
        before = partition.leader_epoch, partition.log.log_end_offset
        wanted = None if self._from_tiered_end else await self._offset_of(partition, EARLIEST_LOCAL)
        found = await self._remote_of(partition).bootstrap(wanted)
        now = partition.leader_epoch, partition.log.log_end_offset
        if now == before and not partition.is_leader and not partition.is_retired:
            _start_at(partition, found)

    async def _offset_of(self, partition: Partition, timestamp: int) -> int:
        """As its leader says; -1 if there is none. KafkaError if it does not say."""
        leader = partition.state.leader if partition.state is not None else NO_LEADER
        answers = await self._list_offsets(leader, [partition], timestamp)
        said = answers.get(partition.topic_partition)
        code = ErrorCode(said.error_code) if said is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if said is None or code:
            raise KafkaError(code, f"broker {leader} does not say where its log begins")
        return said.offset

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
            for some in pieces(list(by_leader.items()), LEADERS_AT_ONCE):
                await asyncio.gather(*(self._ask(leader, followed) for leader, followed in some))

    async def _ask(self, leader: int, followed: list[Partition]) -> None:
        try:
            answers = await self._list_offsets(leader, followed, LATEST_TIERED)
        except KafkaError as error:
            logger.debug("broker %d does not say what is copied: %s", leader, error)
            return
        for each in followed:
            said = answers.get(each.topic_partition)
            is_known = said is not None and not said.error_code and said.offset >= 0
            if said is not None and is_known and not each.is_leader and not each.is_retired:
                each.log.note_tiered(said.offset + 1)

    async def _list_offsets(
        self, leader: int, followed: list[Partition], timestamp: int
    ) -> dict[TopicPartition, ListOffsetsPartitionResponse]:
        topics: dict[str, ListOffsetsTopic] = {}
        for each in followed:
            topic = topics.setdefault(each.topic, ListOffsetsTopic(name=each.topic, partitions=[]))
            topic.partitions.append(ListOffsetsPartition(each.index, each.leader_epoch, timestamp))
        request = ListOffsetsRequest(replica_id=self._host.node_id, topics=list(topics.values()))
        response: ListOffsetsResponse = await self._host.peers.send(leader, request, VERSION)
        return {
            TopicPartition(topic.name, said.partition_index): said
            for topic in response.topics
            for said in topic.partitions
        }

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
        "%s begins at %d: what is before is in the object store",
        partition.topic_partition,
        found.tiered_end,
    )
    log.start_at(
        found.tiered_end, found.log_start, found.epochs, found.producers, in_background=True
    )  # nothing is fetched before that is done
    partition.followed_to(found.tiered_end)
