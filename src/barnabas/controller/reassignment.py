"""Reassignments: started here, and completed by the transition that fills the ISR."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from barnabas.cluster import have_one_node
from barnabas.cluster.deltas import Delta, PartitionChanged
from barnabas.cluster.image import MetadataImage, PartitionState, TopicState
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.controller.decision import ControllerPolicy, Decided
from barnabas.controller.partitions import Transition, election_for, is_unclean, next_state
from barnabas.controller.processes import one_epoch_up, with_siblings

# -- checks of manual replica assignments (create, grow, reassign) ---------------------------------


def check_assignment(image: MetadataImage, replicas: Sequence[int], expected: int | None = None) -> None:
    """`expected` is the replication factor that the topic's other partitions have."""
    if not replicas:
        raise _invalid("The manual partition assignment includes an empty replica list.")
    previous = None
    for broker_id in sorted(replicas):
        if broker_id not in image.brokers:
            raise _invalid(
                f"The manual partition assignment includes broker {broker_id}, "
                "but no such broker is registered."
            )
        if broker_id == previous:
            raise _invalid(f"The manual partition assignment includes the broker {broker_id} more than once.")
        previous = broker_id
    if have_one_node(image, replicas):
        raise _invalid(
            f"The manual partition assignment includes two processes of one node: {', '.join(map(str, replicas))}. "
            "They share its disks."
        )
    if expected is not None and len(replicas) != expected:
        raise _invalid(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), "
            f"but this is not consistent with previous partitions, which have {expected} replica(s)."
        )


def new_partition(image: MetadataImage, index: int, replicas: Sequence[int]) -> PartitionState:
    """The first state of a partition: those replicas that are up form the ISR, the first of them leads."""
    isr = tuple(broker_id for broker_id in replicas if image.can_lead(broker_id))
    if not isr:
        raise _invalid(
            f"All brokers specified in the manual partition assignment for partition {index} "
            "are fenced or in controlled shutdown."
        )
    return PartitionState(tuple(replicas), isr, isr[0])


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


Target: TypeAlias = Sequence[int] | None
"""Target replicas of a partition; None cancels a reassignment in progress."""


def alter_reassignments(
    image: MetadataImage,
    targets: Sequence[tuple[TopicPartition, Target]],
    policy: ControllerPolicy,
    *,
    allow_replication_factor_change: bool = True,
) -> Decided[list[KafkaError | None]]:
    """The result of each target, None for success."""
    deltas: list[Delta] = []
    results: list[KafkaError | None] = []
    for topic_partition, target in targets:
        try:
            topic, partition = _find(image, topic_partition)
            start = partition if target is None else with_siblings(image, partition, target)
            step = _step(image, topic, start, target, policy, allow_replication_factor_change)
        except KafkaError as error:
            results.append(error)
            continue
        results.append(None)
        if (state := one_epoch_up(partition, start, next_state(start, step))) is not partition:
            index, unclean = topic_partition.partition, is_unclean(start, state)
            deltas.append(PartitionChanged(topic.topic_id, index, state, unclean))
    return deltas, results


def list_reassignments(
    image: MetadataImage, requested: Iterable[TopicPartition] | None
) -> dict[TopicPartition, PartitionState]:
    """The reassignments in progress; of all partitions, or of those requested. Unknown ones are omitted."""
    if requested is None:
        requested = (TopicPartition(topic.name, index) for topic, index, _ in image.partitions())
    found = ((tp, image.partition(*tp)) for tp in requested)
    return {tp: state for tp, state in found if state is not None and state.being_reassigned}


def _find(image: MetadataImage, requested: TopicPartition) -> tuple[TopicState, PartitionState]:
    topic = image.topics.get(requested.topic)
    if topic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {requested.topic}."
        )
    partition = topic.partition(requested.partition)
    if partition is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition {requested.topic}:{requested.partition}.",
        )
    return topic, partition


def _step(
    image: MetadataImage,
    topic: TopicState,
    partition: PartitionState,
    target: Target,
    policy: ControllerPolicy,
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
    image: MetadataImage,
    topic: TopicState,
    partition: PartitionState,
    target: Sequence[int],
    policy: ControllerPolicy,
) -> Transition:
    # A reassignment that replaces one in progress starts from the original replicas.
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
    image: MetadataImage, topic: TopicState, partition: PartitionState, policy: ControllerPolicy
) -> Transition:
    if not partition.being_reassigned:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = _settled_replicas(partition)
    isr = tuple(broker for broker in partition.isr if broker in replicas)
    if not isr and not policy.unclean_election_allowed(image, topic.name):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The reassignment cannot be cancelled: none of the original replicas is in sync.",
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
    """The replicas without those that a reassignment in progress has added."""
    return tuple(broker for broker in partition.replicas if broker not in partition.adding_replicas)
