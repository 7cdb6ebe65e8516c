"""Partitions move between brokers: begun here, and finished by the step that fills the ISR."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from barnabas.cluster.deltas import Delta, PartitionChanged
from barnabas.cluster.image import MetadataImage, PartitionState, TopicState
from barnabas.controller.assignments import check_assignment
from barnabas.controller.decision import Decided, Policy
from barnabas.controller.partitions import Transition, election_for, is_unclean, next_state
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition

Target: TypeAlias = Sequence[int] | None
"""The replicas a partition shall have; None calls off a reassignment that is under way."""


def alter_reassignments(
    image: MetadataImage,
    targets: Sequence[tuple[TopicPartition, Target]],
    policy: Policy,
    *,
    allow_replication_factor_change: bool = True,
) -> Decided[list[KafkaError | None]]:
    """The result of each target, None for success."""
    deltas: list[Delta] = []
    results: list[KafkaError | None] = []
    for topic_partition, target in targets:
        try:
            topic, partition = _find(image, topic_partition)
            step = _step(image, topic, partition, target, policy, allow_replication_factor_change)
        except KafkaError as error:
            results.append(error)
            continue
        results.append(None)
        if (state := next_state(partition, step)) is not partition:
            index, unclean = topic_partition.partition, is_unclean(partition, state)
            deltas.append(PartitionChanged(topic.topic_id, index, state, unclean))
    return deltas, results


def list_reassignments(
    image: MetadataImage, wanted: Iterable[TopicPartition] | None
) -> dict[TopicPartition, PartitionState]:
    """The partitions that are on the move; of all, or of those asked for. Unknown ones are left out."""
    if wanted is None:
        wanted = (TopicPartition(topic.name, index) for topic, index, _ in image.partitions())
    found = ((asked, image.partition(*asked)) for asked in wanted)
    return {asked: state for asked, state in found if state is not None and state.being_reassigned}


def _find(image: MetadataImage, wanted: TopicPartition) -> tuple[TopicState, PartitionState]:
    topic = image.topics.get(wanted.topic)
    if topic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {wanted.topic}."
        )
    partition = topic.partition(wanted.partition)
    if partition is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition {wanted.topic}:{wanted.partition}.",
        )
    return topic, partition


def _step(
    image: MetadataImage,
    topic: TopicState,
    partition: PartitionState,
    target: Target,
    policy: Policy,
    allow_factor_change: bool,
) -> Transition:
    if target is None:
        return _cancellation(image, topic, partition, policy)
    _check_target(image, partition, target, allow_factor_change)
    return _move(image, topic, partition, target, policy)


def _check_target(
    image: MetadataImage, partition: PartitionState, target: Sequence[int], allow_factor_change: bool
) -> None:
    check_assignment(image, target)
    before = len(_settled_replicas(partition))
    if not allow_factor_change and len(target) != before:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {before} to {len(target)}",
        )


def _move(
    image: MetadataImage, topic: TopicState, partition: PartitionState, target: Sequence[int], policy: Policy
) -> Transition:
    # A move that replaces one under way starts from where the partition was before that one.
    current = _settled_replicas(partition)
    removing = tuple(broker for broker in partition.replicas if broker not in target)
    adding = tuple(broker for broker in target if broker not in current)
    return Transition(
        image.can_lead,
        policy.min_isr(image, topic.name, len(target)),
        election_for(image, policy, topic.name),
        replicas=(*target, *removing),
        adding=adding,
        removing=removing,
    )


def _cancellation(
    image: MetadataImage, topic: TopicState, partition: PartitionState, policy: Policy
) -> Transition:
    if not partition.being_reassigned:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = _settled_replicas(partition)
    isr = tuple(broker for broker in partition.isr if broker in replicas)
    if not isr and not policy.unclean_election_allowed(image, topic.name):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The reassignment cannot be called off: none of the replicas it started from is in sync.",
        )
    return Transition(
        image.can_lead,
        policy.min_isr(image, topic.name, len(replicas)),
        election_for(image, policy, topic.name),
        isr=isr,
        replicas=replicas,
        adding=(),
        removing=(),
    )


def _settled_replicas(partition: PartitionState) -> tuple[int, ...]:
    """The replicas without those that a reassignment under way has added."""
    return tuple(broker for broker in partition.replicas if broker not in partition.adding_replicas)
