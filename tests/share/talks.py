"""Recorded conversations about share groups, for comparison between brokers."""

from __future__ import annotations

from functools import partial
from typing import Any

from barnabas.client.connection import BrokerConnection
from barnabas.common.types import Uuid, uuid_to_text
from barnabas.protocol.messages.groups import DeleteGroupsRequest
from barnabas.protocol.messages.metadata import FindCoordinatorRequest, MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.share import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupHeartbeatRequest,
)
from barnabas.protocol.messages.share_state import (
    DeleteShareGroupStatePartitionData,
    DeleteShareGroupStateRequest,
    DeleteStateData,
    InitializeShareGroupStatePartitionData,
    InitializeShareGroupStateRequest,
    InitializeStateData,
    ReadShareGroupStatePartitionData,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryPartitionData,
    ReadShareGroupStateSummaryRequest,
    ReadStateData,
    ReadStateSummaryData,
    StateBatch,
    WriteShareGroupStatePartitionData,
    WriteShareGroupStateRequest,
    WriteStateData,
)
from barnabas.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from barnabas.records.builder import build_batch
from barnabas.records.record import Record
from tests.support.groups.conversations import Talk
from tests.support.waiting import async_until

TIMEOUT_MS = 20_000
"""Of a fetch that brings records: it is answered as soon as there are some, which can be late, as Kafka first has to
write down what was acknowledged, and to read the state of a share partition when it is first asked for."""
A_MOMENT_MS = 50
"""Of a fetch that brings none."""


class ShareTalk(Talk):
    """A talk on one connection about one topic."""

    topic_id: Uuid = bytes(16)
    topic: str = ""

    @property
    def connection(self) -> BrokerConnection:
        return self._connections[0]

    async def set_up(self, topic: str, group: str, partitions: int = 1) -> None:
        """A topic, and coordinators for the group and for its share partitions."""
        connection = await self.open()
        self.topic = topic
        await connection.send(CreateTopicsRequest([CreatableTopic(topic, partitions, 1)]), 7)
        await async_until(lambda: self._learn_topic(topic))
        await async_until(lambda: self._are_coordinated(0, [group]))
        share_partitions = [f"{group}:{uuid_to_text(self.topic_id)}:{index}" for index in range(partitions)]
        await async_until(lambda: self._are_coordinated(2, share_partitions))
        for index in range(partitions):
            await async_until(partial(self._is_loaded, group, index))
        await async_until(lambda: self._is_known_to_the_coordinator(group))

    async def _learn_topic(self, topic: str) -> bool:
        answer = await self.connection.send(MetadataRequest([MetadataRequestTopic(name=topic)]), 12)
        self.topic_id = answer.topics[0].topic_id
        return all(partition.leader_id >= 0 for partition in answer.topics[0].partitions) and bool(
            answer.topics[0].partitions
        )

    async def _are_coordinated(self, key_type: int, keys: list[str]) -> bool:
        answer = await self.connection.send(
            FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys), 6
        )
        return all(not found.error_code for found in answer.coordinators)

    async def _is_loaded(self, group: str, partition: int) -> bool:
        """Kafka's share coordinator has loaded its state and learned of the topic, later than clients."""
        wanted = [ReadShareGroupStateSummaryPartitionData(partition, 0)]
        request = ReadShareGroupStateSummaryRequest(group, [ReadStateSummaryData(self.topic_id, wanted)])
        answer = await self.connection.send(request, 1)
        return answer.results[0].partitions[0].error_code not in (3, 14, 15, 16)

    async def _is_known_to_the_coordinator(self, group: str) -> bool:
        """Likewise the group coordinator: a temporary group gets an offset and is deleted."""
        probe = f"probe-of-{group}"
        topic = AlterShareGroupOffsetsRequestTopic(self.topic, [AlterShareGroupOffsetsRequestPartition(0, 0)])
        altered = await self.connection.send(AlterShareGroupOffsetsRequest(probe, [topic]), 0)
        await self.connection.send(DeleteGroupsRequest([probe]), 2)
        return not altered.error_code and not altered.responses[0].partitions[0].error_code

    async def produce(self, *values: bytes, partition: int = 0) -> None:
        """One batch."""
        batch = build_batch([Record(0, 1_700_000_000_000, None, value) for value in values])
        data = [TopicProduceData(self.topic, partition_data=[PartitionProduceData(partition, batch)])]

        async def is_written() -> bool:
            answer = await self.connection.send(ProduceRequest(None, -1, 10_000, data), 9)
            return not answer.responses[0].partition_responses[0].error_code

        await async_until(is_written)

    # -- the share coordinator ------------------------------------------------------------------------

    async def initialize(self, group: str, epoch: int, start: int, partition: int = 0) -> Any:
        wanted = [InitializeShareGroupStatePartitionData(partition, epoch, start)]
        return await self._ask_state(
            InitializeShareGroupStateRequest(group, [InitializeStateData(self.topic_id, wanted)]), 0
        )

    async def read(self, group: str, leader_epoch: int, partition: int = 0) -> Any:
        wanted = [ReadShareGroupStatePartitionData(partition, leader_epoch)]
        return await self._ask_state(
            ReadShareGroupStateRequest(group, [ReadStateData(self.topic_id, wanted)]), 0
        )

    async def write(
        self, group: str, epochs: tuple[int, int], start: int, *batches: tuple[int, int, int, int]
    ) -> Any:
        data = WriteShareGroupStatePartitionData(
            0, *epochs, start, 0, [StateBatch(*each) for each in batches]
        )
        return await self._ask_state(
            WriteShareGroupStateRequest(group, [WriteStateData(self.topic_id, [data])]), 1
        )

    async def delete(self, group: str, partition: int = 0) -> Any:
        wanted = [DeleteShareGroupStatePartitionData(partition)]
        return await self._ask_state(
            DeleteShareGroupStateRequest(group, [DeleteStateData(self.topic_id, wanted)]), 0
        )

    async def summary(self, group: str, leader_epoch: int, partition: int = 0) -> Any:
        wanted = [ReadShareGroupStateSummaryPartitionData(partition, leader_epoch)]
        return await self._ask_state(
            ReadShareGroupStateSummaryRequest(group, [ReadStateSummaryData(self.topic_id, wanted)]), 1
        )

    # -- records ------------------------------------------------------------------------------------

    async def fetch(
        self,
        group: str,
        epoch: int,
        *acknowledged: tuple[int, int, list[int]],
        member: str | None = "me",
        partitions: tuple[int, ...] = (0,),
        forgotten: tuple[int, ...] = (),
        version: int = 2,
        **fields: Any,
    ) -> Any:
        batches = [AcknowledgementBatch(*each) for each in acknowledged]
        wanted = [FetchPartition(index, acknowledgement_batches=batches) for index in partitions]
        limits = {
            "max_wait_ms": TIMEOUT_MS,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
        }
        request = ShareFetchRequest(
            group_id=group,
            member_id=member,
            share_session_epoch=epoch,
            topics=[FetchTopic(self.topic_id, wanted)] if wanted else [],
            forgotten_topics_data=[ForgottenTopic(self.topic_id, list(forgotten))] if forgotten else [],
            **{**limits, **fields},
        )
        return await self.ask(request, version)

    async def acknowledge(
        self,
        group: str,
        epoch: int,
        *acknowledged: tuple[int, int, list[int]],
        member: str | None = "me",
        partition: int = 0,
        version: int = 2,
        **fields: Any,
    ) -> Any:
        batches = [AcknowledgementBatch(*each) for each in acknowledged]
        wanted = [AcknowledgePartition(partition, batches)]
        request = ShareAcknowledgeRequest(
            group, member, epoch, topics=[AcknowledgeTopic(self.topic_id, wanted)], **fields
        )
        return await self.ask(request, version)

    async def start_group(self, group: str, start: int = 0, partitions: int = 1) -> None:
        """Begin to keep state for a group, as its coordinator does when members subscribe."""
        for index in range(partitions):
            wanted = [InitializeShareGroupStatePartitionData(index, 0, start)]
            request = InitializeShareGroupStateRequest(group, [InitializeStateData(self.topic_id, wanted)])
            await async_until(partial(self._succeeds, request))

    # -- groups ---------------------------------------------------------------------------------------

    async def beat(self, group: str, member: str = "me", **fields: Any) -> Any:
        """Where Kafka assigns nothing before the second heartbeat we do: joining is not compared."""
        fields_ = {"group_id": group, "member_id": member, "subscribed_topic_names": [self.topic], **fields}
        request = ShareGroupHeartbeatRequest(**fields_)
        if fields:
            return await self.ask(request, 1)
        return await self.connection.send(request, 1)

    async def describe_offsets(self, group: str, topics: dict[str, list[int]] | None) -> Any:
        wanted = None
        if topics is not None:
            wanted = [DescribeShareGroupOffsetsRequestTopic(*each) for each in topics.items()]
        groups = [DescribeShareGroupOffsetsRequestGroup(group, wanted)]
        return await self.ask(DescribeShareGroupOffsetsRequest(groups), 1)

    async def alter_offsets(self, group: str, topics: dict[str, dict[int, int]]) -> Any:
        wanted = [
            AlterShareGroupOffsetsRequestTopic(
                name, [AlterShareGroupOffsetsRequestPartition(*each) for each in offsets.items()]
            )
            for name, offsets in topics.items()
        ]
        return await self.ask(AlterShareGroupOffsetsRequest(group, wanted), 0)

    async def delete_offsets(self, group: str, *topics: str) -> Any:
        wanted = [DeleteShareGroupOffsetsRequestTopic(name) for name in topics]
        return await self.ask(DeleteShareGroupOffsetsRequest(group, wanted), 0)

    async def _succeeds(self, request: Any) -> bool:
        answer = await self.connection.send(request, 0)
        return not answer.results[0].partitions[0].error_code

    async def _ask_state(self, request: Any, version: int) -> Any:
        return await self.ask(request, version)

    def _comparable(self, value: Any) -> Any:
        """Records are compared by how many bytes there are: the batches hold this and that of the broker."""
        if isinstance(value, memoryview | bytes | bytearray):
            return len(value)
        return super()._comparable(value)

    def _plain(self, text: str) -> str:
        """Topic ids are random, and stand in the requests."""
        return super()._plain(text.replace(repr(self.topic_id), "<the topic>"))
