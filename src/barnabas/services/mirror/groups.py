"""Replicates consumer groups of a link: committed offsets, and MirrorMaker 2 checkpoints where offsets differ.

The offset in the target is max(log start, min(source commit, log end)), with the target's log bounds. Groups that have
members in the target, or offsets not written by the mirror, are skipped: their consumers have already moved.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from barnabas.client import Client, Producer, create_if_missing, raise_for
from barnabas.client.groups import CommittedOffset, commit_offsets, find_coordinator, list_groups
from barnabas.client.mirrors.store import GROUP, LinkStatus, MirrorStore
from barnabas.client.offsets import EARLIEST, LATEST, list_offsets_once
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.regex import compile_pattern
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from barnabas.services.mirror.links import LinkTopics
from barnabas.services.mirror.producer import ProducingTarget
from barnabas.services.mirror.settings import MirrorSettings

# -- Checkpoints in the format of MirrorMaker 2, for clients that call RemoteClusterUtils.translateOffsets

TOPIC_SETTINGS = {"cleanup.policy": "compact"}
_VERSION = 0
_VALUE = struct.Struct(">hqq")


class Checkpoint(NamedTuple):
    group: str
    tp: TopicPartition
    upstream_offset: int
    downstream_offset: int
    metadata: str = ""


def checkpoints_topic(alias: str) -> str:
    return f"{alias}.checkpoints.internal"


def encode_checkpoint(checkpoint: Checkpoint) -> tuple[bytes, bytes]:
    """Return (key, value)."""
    key = _string(checkpoint.group) + _string(checkpoint.tp.topic)
    key += checkpoint.tp.partition.to_bytes(4, "big", signed=True)
    value = _VALUE.pack(_VERSION, checkpoint.upstream_offset, checkpoint.downstream_offset)
    return key, value + _string(checkpoint.metadata)


def _string(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data


AT_ONCE = 200  # groups per request
WITHOUT_OFFSETS = "share"
"""Type of share groups: their progress is not a single offset per partition."""
HAS_MEMBERS = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)

Commits = dict[TopicPartition, CommittedOffset]


class TargetBounds(NamedTuple):
    """Log bounds of a target partition."""

    log_start: int
    log_end: int


@dataclass(slots=True)
class GroupReport:
    """Result of one round."""

    followed: int = 0
    left_alone: dict[str, str] = field(default_factory=dict)
    checkpoints: list[Checkpoint] = field(default_factory=list)


def target_commit(commit: CommittedOffset, bounds: TargetBounds) -> CommittedOffset:
    """Clamp a commit to the target's log, since a commit outside of it would trigger auto.offset.reset."""
    return commit._replace(offset=max(bounds.log_start, min(commit.offset, bounds.log_end)))


def foreign(
    current: Mapping[TopicPartition, CommittedOffset], written: Mapping[TopicPartition, list[int]]
) -> list[TopicPartition]:
    """Partitions with a committed offset that differs from those written, or about to be written, by the mirror."""
    return [tp for tp, commit in current.items() if commit.offset not in written.get(tp, ())]


async def commits_of(client: Client, groups: Iterable[tuple[int, str]]) -> dict[str, Commits]:
    """Return the committed offsets of (coordinator, group) pairs. Groups whose coordinator has moved are omitted."""
    names = {topic.id: name for name, topic in client.metadata.topics.items()}
    by_coordinator: dict[int, list[str]] = defaultdict(list)
    for coordinator, group in groups:
        by_coordinator[coordinator].append(group)
    found: dict[str, Commits] = {}
    for coordinator, predicate in by_coordinator.items():
        for start in range(0, len(predicate), AT_ONCE):
            requested = [
                OffsetFetchRequestGroup(group_id=group) for group in predicate[start : start + AT_ONCE]
            ]
            for each in requested:
                each.topics = None
            request = OffsetFetchRequest(groups=requested)
            response: OffsetFetchResponse = await client.send_to_broker(coordinator, request)
            for answer in response.groups:
                if answer.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
                    raise_for(
                        answer.error_code, f"not authorized to read the offsets of group {answer.group_id}"
                    )
                if not answer.error_code:
                    found[answer.group_id] = _commits(answer, names)
    return found


def _commits(answer: OffsetFetchResponseGroup, names: Mapping[bytes, str]) -> Commits:
    return {
        TopicPartition(name, each.partition_index): CommittedOffset(
            each.committed_offset, each.metadata or "", each.committed_leader_epoch
        )
        for topic in answer.topics
        for name in [topic.name or names.get(topic.topic_id, "")]
        for each in topic.partitions
        if name and each.committed_offset >= 0 and not each.error_code
    }


class GroupFollower:
    """Replicates the groups of one link, and records the offsets it writes."""

    def __init__(
        self, source: Client, target: Client, store: MirrorStore, predicate: Callable[[str], bool]
    ) -> None:
        self._source = source
        self._target = target
        self._store = store
        self._wanted = predicate
        self._done: dict[str, Commits] = {}

    async def follow(
        self,
        translate: Callable[[TopicPartition, CommittedOffset], tuple[TopicPartition, CommittedOffset] | None],
        *,
        commit: bool,
    ) -> GroupReport:
        """`translate` returns partition and commit in the target; None if it is not mirrored or not known yet.

        Without `commit` (`--merge`: one offset cannot represent several sources) it produces checkpoints only.
        """
        report = GroupReport()
        await self._source.all_topics()
        listed = [
            (coordinator, group.group_id)
            for coordinator, group in await list_groups(self._source)
            if group.group_type.lower() != WITHOUT_OFFSETS and self._wanted(group.group_id)
        ]
        for group, commits in (await commits_of(self._source, listed)).items():
            predicate: Commits = {}
            for tp, source_offset in commits.items():
                if (translated := translate(tp, source_offset)) is not None:
                    predicate[translated[0]] = translated[1]
                    report.checkpoints.append(
                        Checkpoint(
                            group,
                            translated[0],
                            source_offset.offset,
                            translated[1].offset,
                            source_offset.metadata,
                        )
                    )
            if predicate and commit:
                await self._follow_one(group, predicate, report)
        return report

    async def _follow_one(self, group: str, predicate: Commits, report: GroupReport) -> None:
        if self._done.get(group) == predicate:
            report.followed += 1
            return
        current = await self._current(group)
        written = self._written(group)
        others = foreign({tp: each for tp, each in current.items() if tp in predicate}, written)
        if others:
            report.left_alone[group] = (
                f"it has committed offsets that the mirror did not write, for {others[0]}"
            )
            return
        differing = {tp: each for tp, each in predicate.items() if current.get(tp) != each}
        if differing:
            await self._remember(group, current, predicate)
        try:
            if differing:
                await commit_offsets(self._target, group, differing)
        except KafkaError as error:
            if error.code not in HAS_MEMBERS:
                raise
            report.left_alone[group] = "it has members on the target"
            return
        self._done[group] = predicate
        report.followed += 1

    async def _current(self, group: str) -> Commits:
        await self._target.all_topics()
        coordinator = await find_coordinator(self._target, group)
        return (await commits_of(self._target, [(coordinator, group)])).get(group, {})

    def _written(self, group: str) -> dict[TopicPartition, list[int]]:
        stored = self._store.get(GROUP, group, value_type=list[tuple[str, int, list[int]]]) or []
        return {TopicPartition(topic, index): offsets for topic, index, offsets in stored}

    async def _remember(self, group: str, current: Commits, predicate: Commits) -> None:
        """Record both the current and the new offset, in case the process dies before the commit."""
        stored = [
            [*tp, sorted({each.offset, current[tp].offset} if tp in current else {each.offset})]
            for tp, each in predicate.items()
        ]
        await self._store.put({(GROUP, group): stored})


# -- Periodic replication of all groups of a link ------------------------------------------------------


class TopicFollowers:
    def __init__(
        self, source: Client, target: Client, store: MirrorStore, settings: MirrorSettings, alias: str
    ) -> None:
        pattern: Any = compile_pattern(settings.groups)
        self._groups = GroupFollower(source, target, store, lambda name: bool(pattern.fullmatch(name)))
        self._target = target
        self._merge = settings.merge
        self._alias = alias
        self._told: dict[tuple[str, TopicPartition], Checkpoint] = {}

    async def follow(self, topics: LinkTopics, producing: ProducingTarget | None) -> None:
        """Run one round. Without a producing target, source and target offsets are identical."""
        bounds = await self._bounds(topics)

        def translate(
            tp: TopicPartition, commit: CommittedOffset
        ) -> tuple[TopicPartition, CommittedOffset] | None:
            limits = bounds.get(tp)
            if limits is None:
                return None
            if producing is not None:
                mapped = producing.maps[tp].target_of(commit.offset)
                if mapped is None:
                    return None
                commit = commit._replace(offset=mapped, leader_epoch=-1)
            return topics.target_tp(tp), target_commit(commit, limits)

        try:
            report = await self._groups.follow(translate, commit=not self._merge)
        except KafkaError as error:
            if error.code != ErrorCode.GROUP_AUTHORIZATION_FAILED:
                raise
            topics.notices.groups = {"*": f"groups are not mirrored: {error}"}
            return
        topics.notices.groups, topics.notices.groups_followed = report.left_alone, report.followed
        if producing is not None:
            await self._write_checkpoints(report.checkpoints)
            await producing.forget_below({tp: limits.log_start for tp, limits in bounds.items()})

    async def _bounds(self, topics: LinkTopics) -> dict[TopicPartition, TargetBounds]:
        """Offset bounds in the target of all mirrored partitions, keyed by source partition."""
        partitions = {
            topics.target_tp(tp): tp
            for tp, each in topics.book.partitions.items()
            if each.position >= 0 and each.state not in (LinkStatus.PROMOTING, LinkStatus.STOPPED)
        }
        if not partitions:
            return {}
        await self._target.refresh({tp.topic for tp in partitions})
        starts = await list_offsets_once(self._target, dict.fromkeys(partitions, EARLIEST))
        ends = await list_offsets_once(self._target, dict.fromkeys(partitions, LATEST))
        return {
            source: TargetBounds(starts[translated].offset, ends[translated].offset)
            for translated, source in partitions.items()
        }

    async def _write_checkpoints(self, checkpoints: list[Checkpoint]) -> None:
        news = [each for each in checkpoints if self._told.get((each.group, each.tp)) != each]
        if not news:
            return
        name = checkpoints_topic(self._alias)
        await create_if_missing(self._target, name, 1, TOPIC_SETTINGS)
        async with Producer(self._target) as producer:
            for each in news:
                key, value = encode_checkpoint(each)
                await producer.enqueue(name, value, key, partition=0)
            await producer.flush()
        self._told.update({(each.group, each.tp): each for each in news})
