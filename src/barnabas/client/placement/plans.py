"""Reassignment plans for a layout, with the bytes that they copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from barnabas.client.admin import setting_of_topics
from barnabas.client.cluster import Client
from barnabas.client.errors import ClientError
from barnabas.client.metadata import explain_topic_error
from barnabas.client.placement import planner as planning
from barnabas.client.placement.layout import ClusterLayout, replica_sizes
from barnabas.client.placement.planner import ReplicaMove
from barnabas.client.tiers import ask_leaders
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.tiers import PartitionTier

MIN_INSYNC_REPLICAS = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class ReassignmentPlan:
    moves: Sequence[ReplicaMove]
    elections: Sequence[TopicPartition]
    """Partitions that need a preferred leader election after the moves."""
    sizes: Mapping[TopicPartition, int]
    """Bytes copied per new replica."""
    remote: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Bytes in the object store, which are not copied."""

    @property
    def is_empty(self) -> bool:
        return not self.moves and not self.elections

    @property
    def copied_bytes(self) -> int:
        return sum(self.sizes.get(move.partition, 0) * len(move.added) for move in self.moves)

    @property
    def remote_bytes(self) -> int:
        return sum(self.remote.get(move.partition, 0) * len(move.added) for move in self.moves)

    def document(self) -> dict[str, Any]:
        return {
            "moves": [self._row(move) for move in self.moves],
            "elections": [{"topic": topic, "partition": index} for topic, index in self.elections],
            "copied_bytes": self.copied_bytes,
            "remote_bytes": self.remote_bytes,
        }

    def _row(self, move: ReplicaMove) -> dict[str, Any]:
        return {
            "topic": move.partition.topic,
            "partition": move.partition.partition,
            "before": list(move.before),
            "after": list(move.after),
            "copied_bytes": self.sizes.get(move.partition, 0) * len(move.added),
            "remote_bytes": self.remote.get(move.partition, 0) * len(move.added),
        }


async def with_copies(client: Client, layout: ClusterLayout, plan: ReassignmentPlan) -> ReassignmentPlan:
    """The plan with exact copy sizes: tiered topics copy only what is not in the object store."""
    added = [
        move.partition
        for move in plan.moves
        if move.added and layout.partitions[move.partition].leader in layout.brokers
    ]
    try:
        reports = await ask_leaders(client, added) if added else {}
    except (ClientError, KafkaError):
        return plan  # full replica sizes are an upper bound
    sizes = {tp: tier.replica_bytes for tp, tier in reports.items()}
    remote = {tp: tier.remote_bytes for tp, tier in reports.items() if _is_spared(tier)}
    return replace(plan, sizes={**plan.sizes, **sizes}, remote=remote)


def _is_spared(tier: PartitionTier) -> bool:
    return tier.remote_bytes > 0 and not tier.whole


async def below_min_isr(client: Client, plan: ReassignmentPlan) -> dict[TopicPartition, int]:
    """Partitions that the plan leaves with fewer replicas than min.insync.replicas, and that minimum."""
    shrinking = [move for move in plan.moves if len(move.after) < len(move.before)]
    topics = {move.partition.topic for move in shrinking}
    try:
        minima = await setting_of_topics(client, topics, MIN_INSYNC_REPLICAS) if topics else {}
    except KafkaError:
        return {}  # this user may move partitions but not read the settings of the topic
    return {
        move.partition: minimum
        for move in shrinking
        if (minimum := int(minima.get(move.partition.topic) or 1)) > len(move.after)
    }


async def arrived_bytes(client: Client, plan: ReassignmentPlan) -> int:
    """Bytes on the new replicas after the plan was executed."""
    brokers = {broker for move in plan.moves for broker in move.added}
    sizes = await replica_sizes(client, brokers)
    return sum(sizes.get(broker, {}).get(move.partition, 0) for move in plan.moves for broker in move.added)


def plan_drain(layout: ClusterLayout, broker: int) -> ReassignmentPlan:
    holders = {holder for replicas in layout.assignment.values() for holder in replicas}
    if broker not in {*layout.brokers, *layout.fenced, *holders}:
        known = ", ".join(map(str, layout.brokers))
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker} does not exist; known brokers: {known}"
        )
    return _plan(layout, planning.drain(layout.assignment, layout.sites, broker), everywhere=False)


def replicas_on(layout: ClusterLayout, broker: int) -> int:
    return sum(broker in partition.replicas for partition in layout.partitions.values())


def plan_rebalance(layout: ClusterLayout) -> ReassignmentPlan:
    moves = planning.rebalance(layout.assignment, layout.sites, layout.partition_sizes)
    return _plan(layout, moves, everywhere=True)


def plan_move(
    layout: ClusterLayout, topic: str, partition: int | None, brokers: Sequence[int], replicas: int
) -> ReassignmentPlan:
    """Rotate the brokers: partition n starts with the n-th broker; a single partition with the first."""
    partitions = [tp for tp in layout.partitions if tp.topic == topic]
    if not partitions:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise KafkaError(code, explain_topic_error(topic, code))
    if partition is not None:
        partitions = [_one_of(partitions, topic, partition)]
    moves = []
    for tp in partitions:
        first = 0 if partition is not None else tp.partition
        after = tuple([brokers[(first + step) % len(brokers)] for step in range(replicas)])
        if after != layout.assignment[tp]:
            moves.append(ReplicaMove(tp, layout.assignment[tp], after))
    return _plan(layout, moves, everywhere=False)


def _plan(layout: ClusterLayout, moves: Sequence[ReplicaMove], *, everywhere: bool) -> ReassignmentPlan:
    """`everywhere`: partitions that do not move get their preferred leader, too."""
    targets = {move.partition: move.after for move in moves}
    looked_at = {**layout.assignment, **targets} if everywhere else targets
    elections = [
        tp
        for tp, replicas in looked_at.items()
        if layout.partitions[tp].leader != replicas[0] and replicas[0] in layout.brokers
    ]
    return ReassignmentPlan(moves, elections, layout.partition_sizes)


def _one_of(partitions: Sequence[TopicPartition], topic: str, partition: int) -> TopicPartition:
    wanted = TopicPartition(topic, partition)
    if wanted not in partitions:
        text = f"topic {topic!r} has partitions 0 to {len(partitions) - 1}; there is no {partition}"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    return wanted
