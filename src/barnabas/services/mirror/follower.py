"""Replicates consumer groups of a link: committed offsets, and MirrorMaker 2 checkpoints where offsets differ."""

from __future__ import annotations

from typing import Any

from barnabas.client import Client, Producer, create_if_missing
from barnabas.client.groups import CommittedOffset
from barnabas.client.mirrors.store import LinkStatus, MirrorStore
from barnabas.client.offsets import EARLIEST, LATEST, list_offsets_once
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.regex import compile_pattern
from barnabas.common.types import TopicPartition
from barnabas.services.mirror.groups import (
    TOPIC_SETTINGS,
    Checkpoint,
    GroupFollower,
    TargetBounds,
    checkpoints_topic,
    encode_checkpoint,
    target_commit,
)
from barnabas.services.mirror.links import LinkTopics
from barnabas.services.mirror.producer import ProducingTarget
from barnabas.services.mirror.settings import MirrorSettings


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
            source: TargetBounds(starts[ours].offset, ends[ours].offset)
            for ours, source in partitions.items()
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
