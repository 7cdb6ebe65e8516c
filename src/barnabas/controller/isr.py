"""AlterPartition: a leader asks for another ISR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from barnabas.cluster.deltas import Delta, PartitionChanged
from barnabas.cluster.image import MetadataImage, PartitionState
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import Uuid
from barnabas.controller.decision import ControllerPolicy, Decided
from barnabas.controller.partitions import Transition, next_state

ANY_EPOCH = -1
"""The epoch of an ISR member that the leader does not know (a request before KIP-903)."""


@dataclass(frozen=True, slots=True)
class ProposedIsr:
    """The ISR a leader requires, as (broker id, broker epoch), and the state it wants to change."""

    topic_id: Uuid
    index: int
    leader_epoch: int
    partition_epoch: int
    isr: Sequence[tuple[int, int]]


def alter_isr(
    image: MetadataImage,
    broker_id: int,
    broker_epoch: int,
    proposals: Sequence[ProposedIsr],
    policy: ControllerPolicy,
) -> Decided[list[PartitionState | KafkaError]]:
    """The new state of each partition, in the order of the proposals."""
    check_broker_epoch(image, broker_id, broker_epoch)
    deltas: list[Delta] = []
    results: list[PartitionState | KafkaError] = []
    for proposal in proposals:
        try:
            state = _accepted(image, broker_id, proposal, policy)
        except KafkaError as error:
            results.append(error)
        else:
            results.append(state)
            deltas.append(PartitionChanged(proposal.topic_id, proposal.index, state))
    return deltas, results


def check_broker_epoch(image: MetadataImage, broker_id: int, broker_epoch: int) -> None:
    """Raise if a request comes from an earlier incarnation of a broker."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"broker {broker_id} has no registration with epoch {broker_epoch}; it must register again",
        )


def _accepted(
    image: MetadataImage, broker_id: int, proposal: ProposedIsr, policy: ControllerPolicy
) -> PartitionState:
    topic = image.topic_by_id(proposal.topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    partition = topic.partition(proposal.index)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    _check_epochs(partition, broker_id, proposal)
    isr = tuple(member for member, _ in proposal.isr)
    _check_members(image, partition, proposal)
    min_isr = policy.min_isr(image, topic.name, len(partition.replicas))
    return next_state(partition, Transition(image.can_lead, min_isr, isr=isr, recovered=True))


def _check_epochs(partition: PartitionState, broker_id: int, proposal: ProposedIsr) -> None:
    if proposal.leader_epoch > partition.leader_epoch or proposal.partition_epoch > partition.partition_epoch:
        # The broker knows more than this controller: there must be a newer one.
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    if proposal.leader_epoch < partition.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    if broker_id != partition.leader:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"broker {broker_id} does not lead this partition")
    if proposal.partition_epoch < partition.partition_epoch:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION)


def _check_members(image: MetadataImage, partition: PartitionState, proposal: ProposedIsr) -> None:
    members = [member for member, _ in proposal.isr]
    if len(set(members)) != len(members) or not set(members) <= set(partition.replicas):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "an ISR holds assigned replicas, each once")
    if partition.leader not in members:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a leader cannot leave its own ISR")
    for member, epoch in proposal.isr:
        broker = image.brokers.get(member)
        if broker is None or not broker.can_lead or epoch not in (ANY_EPOCH, broker.epoch):
            raise KafkaError(ErrorCode.INELIGIBLE_REPLICA, f"broker {member} is down or has been restarted")
