"""Leadership goes back to preferred replicas of its own accord (`auto.leader.rebalance.enable`)."""

from __future__ import annotations

from barnabas.cluster.image import MetadataImage
from barnabas.controller.decision import Decided
from barnabas.controller.elections import elect_leaders
from barnabas.controller.partitions import Election
from barnabas.controller.policy import Policy
from barnabas.types import TopicPartition

# So many partitions move at once: a broker that came back must not get thousands in one entry of the log.
MOVED_AT_ONCE = 1000


def balance_leaders(image: MetadataImage, policy: Policy) -> Decided[int]:
    """How many partitions got their preferred leader back. Those whose preferred replica is down or behind stay."""
    wanted = [
        TopicPartition(topic.name, index)
        for topic, index, partition in image.partitions()
        if partition.leader != partition.preferred_leader
        and partition.preferred_leader in partition.isr
        and image.can_lead(partition.preferred_leader)
    ][:MOVED_AT_ONCE]
    deltas, _ = elect_leaders(image, wanted, Election.PREFERRED, policy)
    return deltas, len(deltas)
