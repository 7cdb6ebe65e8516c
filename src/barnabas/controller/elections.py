"""Elections by request (ElectLeaders), and periodic elections of preferred leaders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from barnabas.cluster.deltas import Delta, PartitionChanged
from barnabas.cluster.image import NO_LEADER, MetadataImage, PartitionState
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.controller.decision import ControllerPolicy, Decided
from barnabas.controller.partitions import Election, Transition, is_unclean, next_state

_NOT_ELECTED = {
    Election.PREFERRED: (
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        "The preferred leader was not available.",
    ),
    Election.UNCLEAN: (
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Eligible topic partition leaders are not available.",
    ),
}

# Partitions per log entry: a returned broker must not get thousands at once.
BALANCED_AT_ONCE = 1000


def elect_leaders(
    image: MetadataImage,
    requested: Iterable[TopicPartition] | None,
    election: Election,
    policy: ControllerPolicy,
) -> Decided[dict[TopicPartition, KafkaError | None]]:
    """The result of each partition, None for success. `requested` None means all partitions; those that need
    no election are
    omitted from the results.
    """
    partitions = all_partitions(image) if requested is None else requested
    deltas: list[Delta] = []
    results: dict[TopicPartition, KafkaError | None] = {}
    for topic_partition in partitions:
        try:
            deltas.append(_elect(image, topic_partition, election, policy))
            results[topic_partition] = None
        except KafkaError as error:
            if requested is not None or error.code is not ErrorCode.ELECTION_NOT_NEEDED:
                results[topic_partition] = error
    return deltas, results


def all_partitions(image: MetadataImage) -> Iterable[TopicPartition]:
    return (TopicPartition(topic.name, index) for topic, index, _ in image.partitions())


def uncleanly_led(
    image: MetadataImage, deltas: Iterable[Delta]
) -> Iterator[tuple[TopicPartition, PartitionState]]:
    """The partitions for which these deltas elected a leader that may lack acknowledged records."""
    for delta in deltas:
        if not isinstance(delta, PartitionChanged) or not delta.unclean:
            continue
        if topic := image.topic_by_id(delta.topic_id):
            yield TopicPartition(topic.name, delta.index), delta.state


def _elect(
    image: MetadataImage, requested: TopicPartition, election: Election, policy: ControllerPolicy
) -> PartitionChanged:
    topic = image.topics.get(requested.topic)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {requested.topic}")
    partition = topic.partition(requested.partition)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {requested}")
    if not _election_needed(partition, election):
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    min_isr = policy.min_isr(image, topic.name, len(partition.replicas))
    state = next_state(partition, Transition(image.can_lead, min_isr, election))
    if state.leader in (partition.leader, NO_LEADER):
        raise KafkaError(*_NOT_ELECTED[election])
    return PartitionChanged(topic.topic_id, requested.partition, state, is_unclean(partition, state))


def _election_needed(partition: PartitionState, election: Election) -> bool:
    if election is Election.PREFERRED:
        return partition.leader != partition.preferred_leader
    return partition.leader == NO_LEADER


def balance_leaders(image: MetadataImage, policy: ControllerPolicy) -> Decided[int]:
    """Elect preferred leaders; return the number of partitions changed.

    Those whose preferred replica is not in sync stay.
    """
    requested = [
        TopicPartition(topic.name, index)
        for topic, index, partition in image.partitions()
        if partition.leader != partition.preferred_leader
        and partition.preferred_leader in partition.isr
        and image.can_lead(partition.preferred_leader)
    ][:BALANCED_AT_ONCE]
    deltas, _ = elect_leaders(image, requested, Election.PREFERRED, policy)
    return deltas, len(deltas)
