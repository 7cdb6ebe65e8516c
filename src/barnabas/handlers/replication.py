"""Requests of other brokers to the controller; other brokers return NOT_CONTROLLER.

- AlterPartition, versions 2 and 3: leaders change the ISR. Version 3 has the members' broker epochs (KIP-903).
- AllocateProducerIds, version 0 (KIP-730).
- AssignReplicasToDirs, version 0: replicas in Kafka's LOST directory are on a failed disk. Other directories
  matter only to the replica's broker.
- BrokerHeartbeat, versions 0 to 2: controlled shutdown moves leadership away first. Liveness does not depend
  on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from barnabas.cluster.image import MetadataImage, PartitionState
from barnabas.common.errors import KafkaError
from barnabas.common.types import Uuid
from barnabas.controller import ANY_EPOCH, Decided, ProposedIsr, alter_isr, check_broker_epoch
from barnabas.controller.brokers import allocate_producer_ids, begin_shutdown, lose_replicas
from barnabas.handlers.needs import HasController, HasImage
from barnabas.protocol.messages.replication import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)

if TYPE_CHECKING:
    from barnabas.network.requests import Request

LOST_DIR: Uuid = bytes(15) + b"\x01"
"""Kafka's `DirectoryId.LOST`."""


class ReplicationNeeds(HasController, HasImage, Protocol):
    """Broker attributes used on the controller."""


async def alter_partition(
    broker: ReplicationNeeds, request: Request, message: AlterPartitionRequest
) -> AlterPartitionResponse:
    proposals = [
        _proposal(topic.topic_id, partition) for topic in message.topics for partition in topic.partitions
    ]
    try:
        # A refused leader commits without the replicas it wanted to add: only the controller may refuse it.
        results = await broker.controller.submit(
            lambda image: alter_isr(image, message.broker_id, message.broker_epoch, proposals, broker.policy),
            refusals_count=True,
        )
    except KafkaError as error:
        return AlterPartitionResponse(error_code=error.code)
    topics: dict[Uuid, AlterPartitionResponseTopicData] = {}
    for proposal, result in zip(proposals, results, strict=True):
        topic = topics.setdefault(
            proposal.topic_id, AlterPartitionResponseTopicData(topic_id=proposal.topic_id, partitions=[])
        )
        topic.partitions.append(_result(proposal.index, result))
    return AlterPartitionResponse(topics=list(topics.values()))


def _proposal(topic_id: Uuid, partition: AlterPartitionRequestPartitionData) -> ProposedIsr:
    members = [(member.broker_id, member.broker_epoch) for member in partition.new_isr_with_epochs]
    members += [(member, ANY_EPOCH) for member in partition.new_isr]
    return ProposedIsr(
        topic_id, partition.partition_index, partition.leader_epoch, partition.partition_epoch, members
    )


def _result(index: int, result: PartitionState | KafkaError) -> AlterPartitionResponsePartitionData:
    if isinstance(result, KafkaError):
        return AlterPartitionResponsePartitionData(partition_index=index, error_code=result.code)
    return AlterPartitionResponsePartitionData(
        partition_index=index,
        leader_id=result.leader,
        leader_epoch=result.leader_epoch,
        isr=list(result.isr),
        leader_recovery_state=result.leader_recovery_state,
        partition_epoch=result.partition_epoch,
    )


async def allocate_ids(
    broker: ReplicationNeeds, request: Request, message: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    try:
        block = await broker.controller.submit(
            lambda image: allocate_producer_ids(image, message.broker_id, message.broker_epoch)
        )
    except KafkaError as error:
        return AllocateProducerIdsResponse(error_code=error.code)
    return AllocateProducerIdsResponse(producer_id_start=block.start, producer_id_len=len(block))


async def broker_heartbeat(
    broker: ReplicationNeeds, request: Request, message: BrokerHeartbeatRequest
) -> BrokerHeartbeatResponse:
    def decide(image: MetadataImage) -> Decided[int]:
        # Checked here and not before: the broker may have restarted while this was queued.
        check_broker_epoch(image, message.broker_id, message.broker_epoch)
        return begin_shutdown(image, message.broker_id, broker.policy) if message.want_shut_down else ([], 0)

    try:
        left = await broker.controller.submit(decide)
    except KafkaError as error:
        return BrokerHeartbeatResponse(error_code=error.code)
    state = broker.image.brokers[message.broker_id]
    return BrokerHeartbeatResponse(
        is_caught_up=message.current_metadata_offset >= broker.image.offset,
        is_fenced=state.fenced,
        should_shut_down=message.want_shut_down and left == 0,
    )


async def assign_replicas_to_dirs(
    broker: ReplicationNeeds, request: Request, message: AssignReplicasToDirsRequest
) -> AssignReplicasToDirsResponse:
    lost = {
        (topic.topic_id, partition.partition_index)
        for directory in message.directories
        if directory.id == LOST_DIR
        for topic in directory.topics
        for partition in topic.partitions
    }

    def decide(image: MetadataImage) -> Decided[None]:
        check_broker_epoch(image, message.broker_id, message.broker_epoch)
        return lose_replicas(image, message.broker_id, lost, broker.policy)

    try:
        await broker.controller.submit(decide)
    except KafkaError as error:
        return AssignReplicasToDirsResponse(error_code=error.code)
    return AssignReplicasToDirsResponse()
