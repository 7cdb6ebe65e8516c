"""Replicates committed offsets of consumer groups from the source to the target.

The offset in the target is max(log start, min(source commit, log end)), with the target's log bounds. Groups that have
members in the target, or offsets not written by the mirror, are skipped: their consumers have already moved.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.client import Client, raise_for
from barnabas.client.groups import CommittedOffset, commit_offsets, find_coordinator, list_groups
from barnabas.client.mirrors.store import GROUP, MirrorStore
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

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
    for coordinator, wanted in by_coordinator.items():
        for start in range(0, len(wanted), AT_ONCE):
            asked = [OffsetFetchRequestGroup(group_id=group) for group in wanted[start : start + AT_ONCE]]
            for each in asked:
                each.topics = None
            request = OffsetFetchRequest(groups=asked)
            response: OffsetFetchResponse = await client.send_to_broker(coordinator, request)
            for answer in response.groups:
                if answer.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
                    raise_for(answer.error_code, f"no right to read the offsets of group {answer.group_id}")
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
        self, source: Client, target: Client, store: MirrorStore, wanted: Callable[[str], bool]
    ) -> None:
        self._source = source
        self._target = target
        self._store = store
        self._wanted = wanted
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
            wanted: Commits = {}
            for tp, theirs in commits.items():
                if (ours := translate(tp, theirs)) is not None:
                    wanted[ours[0]] = ours[1]
                    report.checkpoints.append(
                        Checkpoint(group, ours[0], theirs.offset, ours[1].offset, theirs.metadata)
                    )
            if wanted and commit:
                await self._follow_one(group, wanted, report)
        return report

    async def _follow_one(self, group: str, wanted: Commits, report: GroupReport) -> None:
        if self._done.get(group) == wanted:
            report.followed += 1
            return
        current = await self._current(group)
        written = self._written(group)
        others = foreign({tp: each for tp, each in current.items() if tp in wanted}, written)
        if others:
            report.left_alone[group] = f"it has offsets that the mirror did not write, of {others[0]}"
            return
        differing = {tp: each for tp, each in wanted.items() if current.get(tp) != each}
        if differing:
            await self._remember(group, current, wanted)
        try:
            if differing:
                await commit_offsets(self._target, group, differing)
        except KafkaError as error:
            if error.code not in HAS_MEMBERS:
                raise
            report.left_alone[group] = "it has members on the target"
            return
        self._done[group] = wanted
        report.followed += 1

    async def _current(self, group: str) -> Commits:
        await self._target.all_topics()
        coordinator = await find_coordinator(self._target, group)
        return (await commits_of(self._target, [(coordinator, group)])).get(group, {})

    def _written(self, group: str) -> dict[TopicPartition, list[int]]:
        stored = self._store.get(GROUP, group, value_type=list[tuple[str, int, list[int]]]) or []
        return {TopicPartition(topic, index): offsets for topic, index, offsets in stored}

    async def _remember(self, group: str, current: Commits, wanted: Commits) -> None:
        """Record both the current and the new offset, in case the process dies before the commit."""
        stored = [
            [*tp, sorted({each.offset, current[tp].offset} if tp in current else {each.offset})]
            for tp, each in wanted.items()
        ]
        await self._store.put({(GROUP, group): stored})
