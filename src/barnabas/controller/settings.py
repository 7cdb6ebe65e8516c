"""What a changed setting does to partitions at once.

min.insync.replicas: the ELR holds only while nothing is committed without its members, that is while the ISR is smaller
than the minimum. Where a lowered minimum lets the leader commit with those it has, nobody else is eligible any more.
Kafka empties the ELR of every partition that the setting concerns; here it stays where still nothing can be committed,
so that a partition without a leader is not lost for good by a change that was meant to help it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from barnabas.cluster.deltas import ConfigsChanged, Delta, PartitionChanged, apply
from barnabas.cluster.image import MetadataImage, PartitionState, Resource, ResourceType, TopicState
from barnabas.controller.changes import change_all, election_for
from barnabas.controller.partitions import Step
from barnabas.controller.policy import Policy

MIN_ISR = "min.insync.replicas"
ALL_BROKERS = Resource(ResourceType.BROKER, "")

_DECISIVE = frozenset({MIN_ISR})


def follow_settings(
    image: MetadataImage, changes: Iterable[Delta], policy: Policy
) -> Iterator[PartitionChanged]:
    """The partitions that these changes of settings change, which belong into the same entry of the log."""
    decisive = [delta for delta in changes if isinstance(delta, ConfigsChanged) and _is_decisive(delta)]
    if not decisive:
        return iter(())
    everywhere = any(delta.resource_type == ResourceType.BROKER for delta in decisive)
    topics = {delta.resource_name for delta in decisive if delta.resource_type == ResourceType.TOPIC}
    after = apply(image, decisive)

    def step_for(topic: TopicState, partition: PartitionState) -> Step | None:
        if not everywhere and topic.name not in topics:
            return None
        return Step(
            # A leader that is about to stop goes on until somebody can take over.
            lambda broker: broker == partition.leader or image.can_lead(broker),
            policy.min_isr(after, topic.name, len(partition.replicas)),
            election_for(after, policy, topic.name),
        )

    return change_all(image, step_for)


def _is_decisive(delta: ConfigsChanged) -> bool:
    return delta.resource_type in (ResourceType.TOPIC, ResourceType.BROKER) and not _DECISIVE.isdisjoint(
        delta.values
    )
