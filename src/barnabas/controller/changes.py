"""From steps of partitions to deltas: what the modules that change partitions share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from barnabas.cluster.deltas import PartitionChanged
from barnabas.cluster.image import MetadataImage, PartitionState, TopicState
from barnabas.controller.partitions import Election, Step, is_unclean, next_state
from barnabas.controller.policy import Policy

StepFor = Callable[[TopicState, PartitionState], Step | None]


def change_all(image: MetadataImage, step_for: StepFor) -> Iterator[PartitionChanged]:
    """Every partition takes the step given for it; those without a step, or unmoved by it, give no delta."""
    for topic, index, partition in image.partitions():
        step = step_for(topic, partition)
        if step is not None and (state := next_state(partition, step)) is not partition:
            yield PartitionChanged(topic.topic_id, index, state, is_unclean(partition, state))


def election_for(image: MetadataImage, policy: Policy, topic: str) -> Election:
    """What may happen without being asked for: an unclean election only where a topic allows it."""
    return Election.UNCLEAN if policy.unclean_election_allowed(image, topic) else Election.ONLINE
