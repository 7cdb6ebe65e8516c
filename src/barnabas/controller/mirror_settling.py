"""SettleMirrors: leaders report their part of a promotion or a reversal; when all have, the topic continues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from barnabas.cluster import Aborted, MirrorPartition, MirrorTopic
from barnabas.cluster.deltas import Delta, MirrorStored
from barnabas.cluster.image import MetadataImage, TopicState
from barnabas.common.errors import ErrorCode
from barnabas.common.types import Uuid
from barnabas.controller.decision import Decided
from barnabas.controller.isr import check_broker_epoch
from barnabas.protocol.messages.mirror import MirrorState

MAX_ABORTED = 100
"""Limit of listed transactions of a partition; the log has the markers of all."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Report of a leader: the mirrored part ends at `promoted_at`, and `end` is after the markers."""

    index: int
    leader_epoch: int
    promoted_at: int
    promoted_epoch: int
    end: int
    aborted: tuple[Aborted, ...] = ()


def settle_mirrors(
    image: MetadataImage, broker_id: int, broker_epoch: int, reports: Mapping[Uuid, Sequence[Settled]]
) -> Decided[dict[Uuid, ErrorCode]]:
    check_broker_epoch(image, broker_id, broker_epoch)
    deltas: list[Delta] = []
    results: dict[Uuid, ErrorCode] = {}
    for topic_id, settled in reports.items():
        mirror, topic = image.mirrors.get(topic_id), image.topic_by_id(topic_id)
        if mirror is None or topic is None:
            results[topic_id] = ErrorCode.UNKNOWN_TOPIC_ID
            continue
        results[topic_id] = ErrorCode.NONE
        if mirror.is_settling:
            after = _completed(topic, _with_reports(mirror, topic, broker_id, settled))
            deltas += [MirrorStored(after)] if after != mirror else []
    return deltas, results


def _with_reports(
    mirror: MirrorTopic, topic: TopicState, broker_id: int, settled: Sequence[Settled]
) -> MirrorTopic:
    """Apply the reports of current leaders; a new leader reports again."""
    partitions = list(mirror.partitions)
    for each in settled:
        state = topic.partition(each.index)
        is_leader = state is not None and (state.leader, state.leader_epoch) == (broker_id, each.leader_epoch)
        if is_leader and each.index < len(partitions):
            partitions[each.index] = _settled(MirrorState(mirror.state), partitions[each.index], each)
    return replace(mirror, partitions=tuple(partitions))


def _settled(state: MirrorState, partition: MirrorPartition, report: Settled) -> MirrorPartition:
    if state is MirrorState.REVERSING:
        return replace(partition, settled_epoch=report.leader_epoch)
    return replace(
        partition,
        settled_epoch=report.leader_epoch,
        promoted_at=report.promoted_at,
        promoted_epoch=report.promoted_epoch,
        own_from=report.end,
        aborted=report.aborted[:MAX_ABORTED],
    )


def _completed(topic: TopicState, mirror: MirrorTopic) -> MirrorTopic:
    """The next state, once the current leaders of all partitions have reported."""
    if any(
        mirror.partition(index).settled_epoch != state.leader_epoch
        for index, state in enumerate(topic.partitions)
    ):
        return mirror
    if mirror.state == MirrorState.PROMOTING:
        return replace(mirror, state=MirrorState.STOPPED)
    fresh = tuple(MirrorPartition() for _ in mirror.partitions)
    return replace(mirror, state=MirrorState.ACTIVE, reason="", partitions=fresh)
