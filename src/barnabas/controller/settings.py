"""Immediate effects of a changed config on partitions.

min.insync.replicas: the ELR is valid only while nothing is committed without its members, that is while the
ISR is
smaller than the minimum. Where a lowered minimum lets the leader commit with its ISR, no other replica is
eligible.
Kafka clears the ELR of every partition that the config concerns; here it stays while still nothing can be
committed,
so that a change meant to help a leaderless partition does not lose it for good.

unclean.leader.election.enable: elects a leader for partitions that have none, if a replica is up and the
election is
now allowed. Otherwise it would wait until the next broker registers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from barnabas.cluster.deltas import ConfigsChanged, Delta, PartitionChanged, apply
from barnabas.cluster.image import ConfigResourceType, MetadataImage, PartitionState, Resource, TopicState
from barnabas.controller.decision import ControllerPolicy, Decided
from barnabas.controller.partitions import Transition, change_all, election_for

MIN_ISR = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"
ALL_BROKERS = Resource(ConfigResourceType.BROKER, "")

_DECISIVE = frozenset({MIN_ISR, UNCLEAN_ELECTION})


def follow_settings(
    image: MetadataImage, changes: Iterable[Delta], policy: ControllerPolicy
) -> Iterator[PartitionChanged]:
    """The partitions that these changes of settings change, which belong into the same entry of the log."""
    decisive = [delta for delta in changes if isinstance(delta, ConfigsChanged) and _is_decisive(delta)]
    if not decisive:
        return iter(())
    everywhere = any(delta.resource_type == ConfigResourceType.BROKER for delta in decisive)
    topics = {delta.resource_name for delta in decisive if delta.resource_type == ConfigResourceType.TOPIC}
    after = apply(image, decisive)

    def transition_of(topic: TopicState, partition: PartitionState) -> Transition | None:
        if not everywhere and topic.name not in topics:
            return None
        return Transition(
            # A leader that is shutting down continues until another broker can take over.
            lambda broker: broker == partition.leader or image.can_lead(broker),
            policy.min_isr(after, topic.name, len(partition.replicas)),
            election_for(after, policy, topic.name),
        )

    return change_all(image, transition_of)


def settle_min_isr(image: MetadataImage, policy: ControllerPolicy, *, is_alone: bool) -> Decided[None]:
    """One minimum for leaders and for the controller: what the founder's properties say becomes a setting of
    the cluster, and what was set for single brokers, by an earlier version, goes (KIP-966).

    A node alone agrees with itself. Its properties hold until it becomes a cluster.
    """
    changes: list[Delta] = [
        ConfigsChanged(resource.type, resource.name, {MIN_ISR: None})
        for resource, values in image.configs.items()
        if resource.type == ConfigResourceType.BROKER and resource != ALL_BROKERS and MIN_ISR in values
    ]
    if not is_alone and MIN_ISR not in image.configs.get(ALL_BROKERS, {}):
        changes.append(ConfigsChanged(*ALL_BROKERS, {MIN_ISR: str(policy.min_insync_replicas)}))
    return [*changes, *follow_settings(image, changes, policy)], None


def _is_decisive(delta: ConfigsChanged) -> bool:
    return delta.resource_type in (
        ConfigResourceType.TOPIC,
        ConfigResourceType.BROKER,
    ) and not _DECISIVE.isdisjoint(delta.values)
