"""Administration of share group offsets: DescribeShareGroupOffsets 0 and 1, AlterShareGroupOffsets 0,
DeleteShareGroupOffsets 0.

- Describe: version 1 brought the lag: records after the start offset that are not finished (KIP-1226). A partition that
  the group has never read is not an error; its offset is -1.
- Alter and Delete need a group without members. Alter creates the group if there is none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from barnabas.cluster.features import SHARE_VERSION, check_enabled
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import ZERO_UUID, TopicPartition, Uuid
from barnabas.coordination import NO_LEADER, Channel, CoordinatorRequest, CoordinatorResult, Done, answer_of
from barnabas.groups import GroupCoordinator, GroupShard
from barnabas.groups.share import NamedPartitions, Outcomes, Partitions, ShareStates, keys_of
from barnabas.handlers.needs import HasImage, HasReplicas
from barnabas.protocol.internal_topics import NO_OFFSET, SharePartitionKey
from barnabas.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.protocol.messages.share import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from barnabas.share import UNKNOWN_COUNT, SharePersister, StoredState

if TYPE_CHECKING:
    from barnabas.network.requests import Request

R = TypeVar("R")
LATEST = -1
UNKNOWN_LAG = -1
MAX_LONG = (1 << 63) - 1


class ShareOffsetCoordinators(Protocol):
    @property
    def channel(self) -> Channel: ...

    @property
    def groups(self) -> GroupCoordinator: ...

    @property
    def share_persister(self) -> SharePersister: ...

    @property
    def share_states(self) -> ShareStates: ...


class ShareOffsetNeeds(HasImage, HasReplicas, Protocol):
    """Broker attributes used by share group offsets."""

    @property
    def coordinators(self) -> ShareOffsetCoordinators: ...


async def _write(
    broker: ShareOffsetNeeds, group_id: str, handle: Callable[[GroupShard], CoordinatorResult[R]]
) -> R:
    """Run an operation on a group; return its response when it is durable. Raises KafkaError."""

    def write(done: Done[R]) -> None:
        broker.coordinators.groups.write(group_id, handle, done)

    return await answer_of(write)


# -- DescribeShareGroupOffsets --------------------------------------------------------------------------


async def describe_share_group_offsets(
    broker: ShareOffsetNeeds, request: Request, message: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(
        groups=[await _described_group(broker, group) for group in message.groups]
    )


async def _described_group(
    broker: ShareOffsetNeeds, group: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    answer = DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id)
    try:
        check_enabled(broker.image, SHARE_VERSION)
        if not group.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)  # Kafka says UNKNOWN_SERVER_ERROR
        topics = group.topics if group.topics is not None else await _all_topics(broker, group.group_id)
        answer.topics = [await _described_topic(broker, group.group_id, topic) for topic in topics]
    except KafkaError as error:
        answer.error_code, answer.error_message = error.code, error.message
    return answer


async def _all_topics(broker: ShareOffsetNeeds, group_id: str) -> list[DescribeShareGroupOffsetsRequestTopic]:
    groups = broker.coordinators.groups

    def look(shard: GroupShard) -> Partitions:
        return shard.share.find(group_id).states.initialized if group_id in shard.groups else {}

    states: Partitions = await answer_of(lambda done: groups.read(group_id, look, done))
    return [
        DescribeShareGroupOffsetsRequestTopic(topic_name=each.name, partitions=sorted(each.partitions))
        for topic, each in states.items()
        if broker.image.topic_by_id(topic) is not None
    ]


async def _described_topic(
    broker: ShareOffsetNeeds, group_id: str, wanted: DescribeShareGroupOffsetsRequestTopic
) -> DescribeShareGroupOffsetsResponseTopic:
    topic = broker.image.topics.get(wanted.topic_name)
    if topic is None:
        return DescribeShareGroupOffsetsResponseTopic(
            topic_name=wanted.topic_name,
            topic_id=ZERO_UUID,
            partitions=[_nothing_known(index) for index in wanted.partitions],
        )
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            await _described(broker, SharePartitionKey(group_id, topic.topic_id, index))
            for index in wanted.partitions
        ],
    )


def _nothing_known(index: int) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index, start_offset=NO_OFFSET, lag=UNKNOWN_LAG
    )


async def _described(
    broker: ShareOffsetNeeds, key: SharePartitionKey
) -> DescribeShareGroupOffsetsResponsePartition:
    await asyncio.sleep(0)  # a response from memory would not yield to the loop
    persister = broker.coordinators.share_persister
    try:
        stored: StoredState = await answer_of(lambda done: persister.summary(key, done))
    except KafkaError:
        return _nothing_known(key.partition)  # as in OffsetFetch: no data, and no error
    answer = DescribeShareGroupOffsetsResponsePartition(
        partition_index=key.partition,
        start_offset=stored.start_offset,
        leader_epoch=stored.leader_epoch,
        lag=UNKNOWN_LAG,
    )
    if stored.start_offset != NO_OFFSET and stored.finished_count != UNKNOWN_COUNT:
        try:
            end = await broker.coordinators.channel.answer(_EndOffset(broker, key))
            lag = end - stored.start_offset - stored.finished_count
            answer.lag = min(max(lag, 0), MAX_LONG)  # any start offset can be set
        except KafkaError as error:
            return DescribeShareGroupOffsetsResponsePartition(
                partition_index=key.partition, error_code=error.code, error_message=error.message
            )
    return answer


class _EndOffset(CoordinatorRequest[int]):
    """End of a partition for consumers: ListOffsets with the latest offset, from its leader."""

    def __init__(self, broker: ShareOffsetNeeds, key: SharePartitionKey) -> None:
        topic = broker.image.topic_by_id(key.topic_id)
        assert topic is not None
        self._broker = broker
        self._tp = TopicPartition(topic.name, key.partition)

    def leader(self) -> int:
        state = self._broker.image.partition(*self._tp)
        return NO_LEADER if state is None else state.leader

    def handle_locally(self, done: Done[int]) -> None:
        partition = self._broker.replicas.find(*self._tp)
        if partition is None or not partition.is_leader:
            done(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        else:
            done(partition.log.high_watermark)

    def request(self) -> ListOffsetsRequest:
        wanted = ListOffsetsPartition(partition_index=self._tp.partition, timestamp=LATEST)
        return ListOffsetsRequest(topics=[ListOffsetsTopic(name=self._tp.topic, partitions=[wanted])])

    def read(self, response: ListOffsetsResponse) -> int:
        found = response.topics[0].partitions[0]
        if found.error_code:
            raise KafkaError(ErrorCode(found.error_code))
        return found.offset


# -- AlterShareGroupOffsets -----------------------------------------------------------------------------


async def alter_share_group_offsets(
    broker: ShareOffsetNeeds, request: Request, message: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    try:
        check_enabled(broker.image, SHARE_VERSION)
        if not message.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        wanted, offsets = _known_partitions(broker, message)
        epoch = await _write(
            broker, message.group_id, lambda shard: shard.share.begin_reset(message.group_id, wanted)
        )
        outcomes: Outcomes = await answer_of(
            lambda done: broker.coordinators.share_states.reset(
                message.group_id, epoch, wanted, offsets, done
            )
        )
    except KafkaError as error:
        return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
    return AlterShareGroupOffsetsResponse(
        responses=[_altered(broker, message.group_id, topic, outcomes) for topic in message.topics]
    )


def _known_partitions(
    broker: ShareOffsetNeeds, message: AlterShareGroupOffsetsRequest
) -> tuple[Partitions, dict[SharePartitionKey, int]]:
    indexes: dict[str, set[int]] = {}  # by topic name, which may occur more than once
    offsets: dict[SharePartitionKey, int] = {}
    for wanted in message.topics:
        topic = broker.image.topics.get(wanted.topic_name)
        if topic is None:
            continue
        for each in wanted.partitions:
            if topic.partition(each.partition_index) is not None:
                indexes.setdefault(topic.name, set()).add(each.partition_index)
                offsets[SharePartitionKey(message.group_id, topic.topic_id, each.partition_index)] = (
                    each.start_offset
                )
    partitions: dict[Uuid, NamedPartitions] = {
        broker.image.topics[name].topic_id: NamedPartitions(name, frozenset(known))
        for name, known in indexes.items()
    }
    return partitions, offsets


def _altered(
    broker: ShareOffsetNeeds, group_id: str, wanted: AlterShareGroupOffsetsRequestTopic, outcomes: Outcomes
) -> AlterShareGroupOffsetsResponseTopic:
    topic = broker.image.topics.get(wanted.topic_name)
    topic_id = topic.topic_id if topic is not None else ZERO_UUID
    unknown = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partitions = []
    for each in wanted.partitions:
        error = outcomes.get(SharePartitionKey(group_id, topic_id, each.partition_index), unknown)
        partitions.append(
            AlterShareGroupOffsetsResponsePartition(
                partition_index=each.partition_index,
                error_code=error.code if error is not None else ErrorCode.NONE,
                error_message=error.message if error is not None else None,
            )
        )
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=wanted.topic_name, topic_id=topic_id, partitions=partitions
    )


# -- DeleteShareGroupOffsets ----------------------------------------------------------------------------


async def delete_share_group_offsets(
    broker: ShareOffsetNeeds, request: Request, message: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    group_id = message.group_id
    try:
        check_enabled(broker.image, SHARE_VERSION)
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        topics = {topic.topic_name: broker.image.topics.get(topic.topic_name) for topic in message.topics}
        ids = [topic.topic_id for topic in topics.values() if topic is not None]
        found = await _write(broker, group_id, lambda shard: shard.share.begin_deletion(group_id, ids))
        outcomes: Outcomes = await answer_of(
            lambda done: broker.coordinators.share_states.delete(keys_of(group_id, found), done)
        )
        removed_topics = [topic for topic in found if not _first_error(topic, outcomes)]
        await _write(broker, group_id, lambda shard: shard.share.state_deleted(group_id, removed_topics))
    except KafkaError as error:
        return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
    return DeleteShareGroupOffsetsResponse(
        responses=[
            _deleted(name, topic.topic_id if topic is not None else ZERO_UUID, found, outcomes)
            for name, topic in topics.items()
        ]
    )


def _first_error(topic: Uuid, outcomes: Outcomes) -> KafkaError | None:
    return next((error for key, error in outcomes.items() if key.topic_id == topic and error), None)


def _deleted(
    name: str, topic_id: Uuid, found: Partitions, outcomes: Outcomes
) -> DeleteShareGroupOffsetsResponseTopic:
    error = _first_error(topic_id, outcomes)
    if topic_id == ZERO_UUID:
        error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    elif topic_id not in found:
        topic_id = ZERO_UUID
        error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete.")
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=topic_id,
        error_code=error.code if error is not None else ErrorCode.NONE,
        error_message=error.message if error is not None else None,
    )
