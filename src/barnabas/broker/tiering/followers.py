"""Followers of tiered partitions.

- If the leader no longer has the next offset on its disk, the follower's log restarts after a remote segment, with
  leader epochs and producer state from the store, and fetches only the rest from the leader (KIP-405).
- An empty follower starts there without waiting for the leader's error (KIP-1023).
- Followers poll the tiered offset of their leaders (ListOffsets -5) so that they can delete local segments. This
  needs no request to the object store.

The new start is the tiered end. With `follower.fetch.last.tiered.offset.enable=false` it is the local log start offset
of the leader, as in Kafka by default, and the follower fetches everything the leader has on its disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

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
VERSION = 9  # of ListOffsets, the first with LATEST_TIERED
LEADERS_AT_ONCE = 16
"""Leaders polled concurrently for their tiered offsets, so that a slow one does not delay the others."""

logger = safe_logger(__name__)


class TieredFollowers:
    def __init__(
        self,
        peers: Peers,
        node_id: int,
        config: Callable[[], BrokerConfig],
        remote_of: Callable[[Partition], RemoteLog],
    ) -> None:
        self._peers = peers
        self._node_id = node_id
        self._config = config
        self._remote_of = remote_of
        self._beginning: dict[TopicPartition, asyncio.Task[None]] = {}
        self._asked: dict[
            TopicPartition, int
        ] = {}  # leader epoch of the last request to the leader of an empty log

    # -- starting after remote segments ---------------------------------------------------------------

    def moved_to_tiers(self, partition: Partition) -> None:
        """Handle OFFSET_MOVED_TO_TIERED_STORAGE. If this fails, the leader returns the error again."""
        self._begin(partition, self._begin_behind)

    def waits_for_tiers(self, partition: Partition) -> bool:
        """True if records fetched for an empty log should be dropped because it may start after remote segments. The
        leader is asked once per leader epoch."""
        tp = partition.topic_partition
        log = partition.log
        is_wanted = log.config.remote_storage_enable and self._from_tiered_end and not stays_whole(log)
        if not is_wanted or self._asked.get(tp) == partition.leader_epoch:
            return False
        self._begin(partition, self._begin_new)
        return True

    @property
    def _from_tiered_end(self) -> bool:
        return bool(self._config()["follower.fetch.last.tiered.offset.enable"])

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
            logger.warning("%s cannot start at its tiered end: %s", partition.topic_partition, error)

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
        """Return the offset for a timestamp from the leader; -1 if there is none. Raises KafkaError on failure."""
        leader = partition.state.leader if partition.state is not None else NO_LEADER
        answers = await self._list_offsets(leader, [partition], timestamp)
        answer = answers.get(partition.topic_partition)
        code = ErrorCode(answer.error_code) if answer is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if answer is None or code:
            raise KafkaError(code, f"broker {leader} did not return its log start offset")
        return answer.offset

    # -- tiered offsets of leaders --------------------------------------------------------------------

    async def fetch_tiered_ends(self, partitions: Callable[[], Iterable[Partition]]) -> None:
        while True:
            await asyncio.sleep(self._config()["remote.log.manager.task.interval.ms"] / 1000)
            by_leader: dict[int, list[Partition]] = {}
            for partition in partitions():
                leader = partition.state.leader if partition.state is not None else NO_LEADER
                if leader not in (NO_LEADER, self._node_id) and partition.log.config.remote_storage_enable:
                    by_leader.setdefault(leader, []).append(partition)
            for some in pieces(list(by_leader.items()), LEADERS_AT_ONCE):
                await asyncio.gather(*(self._ask(leader, followed) for leader, followed in some))

    async def _ask(self, leader: int, followed: list[Partition]) -> None:
        try:
            answers = await self._list_offsets(leader, followed, LATEST_TIERED)
        except KafkaError as error:
            logger.debug("broker %d did not return its tiered offsets: %s", leader, error)
            return
        for each in followed:
            answer = answers.get(each.topic_partition)
            is_known = answer is not None and not answer.error_code and answer.offset >= 0
            if answer is not None and is_known and not each.is_leader and not each.is_retired:
                each.log.note_tiered(answer.offset + 1)

    async def _list_offsets(
        self, leader: int, followed: list[Partition], timestamp: int
    ) -> dict[TopicPartition, ListOffsetsPartitionResponse]:
        topics: dict[str, ListOffsetsTopic] = {}
        for each in followed:
            topic = topics.setdefault(each.topic, ListOffsetsTopic(name=each.topic, partitions=[]))
            topic.partitions.append(ListOffsetsPartition(each.index, each.leader_epoch, timestamp))
        request = ListOffsetsRequest(replica_id=self._node_id, topics=list(topics.values()))
        response: ListOffsetsResponse = await self._peers.send(leader, request, VERSION)
        return {
            TopicPartition(topic.name, answer.partition_index): answer
            for topic in response.topics
            for answer in topic.partitions
        }

    async def stop(self) -> None:
        tasks = list(self._beginning.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _start_at(partition: Partition, found: Bootstrap) -> None:
    log = partition.log
    if found.tiered_end <= log.log_end_offset:
        return  # the manifest is older than the leader's response
    logger.info(
        "%s starts at offset %d; earlier records are in the object store",
        partition.topic_partition,
        found.tiered_end,
    )
    log.start_at(
        found.tiered_end, found.log_start, found.epochs, found.producers, in_background=True
    )  # fetching resumes once this is done
    partition.followed_to(found.tiered_end)
