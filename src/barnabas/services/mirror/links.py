"""A link from a source to the target: its topics and their state."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from barnabas.client import Client, ClientError, TopicMetadata
from barnabas.client.mirrors import describe_mirrors, has_mirrors
from barnabas.client.mirrors.store import MIRROR_TOPIC, TOPIC, LinkStatus, MirrorStore
from barnabas.common.errors import KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.mirror import MirrorState
from barnabas.services.mirror.configs import Settings, changes, follow_settings, is_compacted, own_settings
from barnabas.services.mirror.leader_workers import LinkState
from barnabas.services.mirror.partition import Following, SourcePartition
from barnabas.services.mirror.plan import (
    MirroredTopicIds,
    MirrorOrigin,
    MirrorPlan,
    MirrorPlanner,
    PlannedTopic,
)

_logger = safe_logger(__name__)


class Administration(Protocol):
    """Topic administration in the target: `mirror_topics` or `plain_topics`."""

    async def ensure(
        self, planned: Sequence[PlannedTopic], settings: Mapping[str, Settings]
    ) -> dict[str, str]: ...

    async def orders(self) -> dict[str, LinkStatus]: ...

    async def known_failures(self, names: Sequence[str]) -> dict[TopicPartition, str]: ...

    async def failed(self, names: Sequence[str]) -> set[TopicPartition]: ...

    async def report_failed(self, reasons: Mapping[TopicPartition, str]) -> None: ...

    async def report_source(self, names: Sequence[str], *, available: bool) -> None: ...

    async def raise_epochs(self, epochs: Mapping[TopicPartition, int]) -> None: ...


@dataclass(slots=True)
class LinkReport:
    """Problems and counts for the status display, by category."""

    refused: dict[str, str] = field(default_factory=dict)
    settings: list[str] = field(default_factory=list)
    acls: str = ""
    groups: dict[str, str] = field(default_factory=dict)
    groups_followed: int = 0
    error: str = ""


class LinkTopics:
    """Updates the state of a link from the source's topics and the mirror states in the target's metadata."""

    def __init__(
        self,
        source: Client,
        target: Client,
        planner: MirrorPlanner,
        administration: Administration,
        following: Following,
    ) -> None:
        self.book = LinkState()
        self.notices = LinkReport()
        self.plan = MirrorPlan()
        self._source = source
        self._target = target
        self._planner = planner
        self._administration = administration
        self._following = following
        self._reported: set[TopicPartition] = set()
        self._missing: set[str] = set()
        self._entered: set[str] = set()
        """Target topics added since the last check; a previous process may have marked them as FAILED."""

    async def refresh(self) -> None:
        """Detect new topics, partitions and configs, and fail deleted or recreated topics. Runs every few seconds."""
        topics = await self._source.all_topics()
        origins = await origins_of(self._source, topics)
        self.plan = self._planner.plan(topics.values(), origins)
        settings = await own_settings(self._source, [each.source.name for each in self.plan.topics])
        fresh = [each for each in self.plan.topics if not self._is_another(each)]
        refused = await self._administration.ensure(self._growing(fresh), settings)
        self.notices.refused = {**self.plan.refused, **refused}
        self._note_vanished(topics)
        for each in fresh:
            if each.target not in refused or each.source.name in self.book.topics:
                self._enter(each, compacted=is_compacted(settings.get(each.source.name, {})))
        await self._follow_settings(settings)
        self.book.suspects.clear()

    def _growing(self, planned: Sequence[PlannedTopic]) -> list[PlannedTopic]:
        """Topics with partitions that may be missing in the target."""
        return [
            each
            for each in planned
            if any(
                TopicPartition(each.source.name, index) not in self.book.partitions
                for index in each.source.partitions
            )
        ]

    def _is_another(self, planned: PlannedTopic) -> bool:
        known = self.book.topics.get(planned.source.name)
        if known is None or known.source_id == planned.source.id:
            return False
        self._fail_topic(
            planned.source.name,
            f"topic {planned.source.name} was deleted and recreated at the source; delete {planned.target} at the "
            "target, or rename it, to mirror the new topic",
        )
        return True

    def _note_vanished(self, topics: Mapping[str, TopicMetadata]) -> None:
        for name in self.book.topics:
            if name not in topics:
                self._fail_topic(
                    name, f"topic {name} was deleted at the source; the mirror is kept at the target"
                )

    def _fail_topic(self, name: str, reason: str) -> None:
        for tp, partition in self.book.partitions.items():
            if tp.topic == name:
                partition.fail(reason)

    def _enter(self, planned: PlannedTopic, *, compacted: bool) -> None:
        name = planned.source.name
        if name not in self.book.topics:
            self._entered.add(planned.target)
        self.book.topics[name] = MirroredTopicIds(name, planned.source.id, planned.target)
        for index in planned.source.partitions:
            tp = TopicPartition(name, index)
            partition = self.book.partitions.get(tp)
            if partition is None:
                self.book.partitions[tp] = SourcePartition(tp, compacted=compacted, following=self._following)
            else:
                # A log keeps its gaps after compaction is turned off.
                partition.compacted |= compacted

    async def _follow_settings(self, settings: Mapping[str, Settings]) -> None:
        live = [each for each in self.book.topics.values() if self._is_live(each.source)]
        target_settings = await own_settings(self._target, [each.target for each in live])
        warnings: list[str] = []
        for each in live:
            if each.source in settings and each.target in target_settings:
                epochs_by_target = changes(settings[each.source], target_settings[each.target])
                warnings += await follow_settings(self._target, each.target, epochs_by_target)
        self.notices.settings = warnings

    def _is_live(self, name: str) -> bool:
        """True if the target topic is still a mirror, not promoted."""
        partition = self.book.partitions.get(TopicPartition(name, 0))
        return partition is not None and partition.state not in (LinkStatus.PROMOTING, LinkStatus.STOPPED)

    def live_names(self) -> dict[str, str]:
        """Map source names to target names."""
        return {each.source: each.target for each in self.book.topics.values() if self._is_live(each.source)}

    # -- mirror states in the target ------------------------------------------------------------------------------

    async def apply_commands(self) -> None:
        """Apply pause, resume and promote requests from the target's metadata. Runs every second."""
        orders = await self._administration.orders()
        missing = {name for name, each in self.book.topics.items() if each.target not in orders}
        self._forget(missing & self._missing)  # twice in a row: a new topic may not have reached every broker
        self._missing = missing
        await self._take_over_failures()
        for tp, partition in self.book.partitions.items():
            state = orders.get(self.target_tp(tp).topic)
            if state is not None:
                partition.ordered(state)
        await self._report_failures()
        await self._report_source(orders)

    def _forget(self, names: set[str]) -> None:
        """Remove topics that were deleted in the target, so that they are mirrored from the start."""
        for name in names:
            del self.book.topics[name]
        for tp in [tp for tp in self.book.partitions if tp.topic in names]:
            del self.book.partitions[tp]

    async def _take_over_failures(self) -> None:
        known = await self._administration.known_failures(sorted(self._entered)) if self._entered else {}
        self._entered.clear()
        for tp, partition in self.book.partitions.items():
            if (reason := known.get(self.target_tp(tp))) is not None:
                partition.fail(reason)
                self._reported.add(self.target_tp(tp))

    async def _report_failures(self) -> None:
        failed = {self.target_tp(each.tp): each for each in self.book.of(LinkStatus.FAILED)}
        self._reported &= failed.keys()
        news = {tp: each.reason for tp, each in failed.items() if tp not in self._reported}
        for reason in sorted(set(news.values())):
            _logger.error("a partition is no longer mirrored: %s", reason)
        if news:
            await self._administration.report_failed(news)
            self._reported |= news.keys()
        position = await self._administration.failed(sorted({tp.topic for tp in failed}))
        for tp in failed.keys() - news.keys() - position:
            failed[tp].resume()

    async def _report_source(self, orders: Mapping[str, LinkStatus]) -> None:
        away = {each.tp.topic for each in self.book.of(LinkStatus.SOURCE_UNAVAILABLE)}
        names = {self.book.topics[name].target for name in away}
        lost = sorted(name for name in names if orders.get(name) is LinkStatus.ACTIVE)
        # Activating a topic would also activate its failed partitions, which requires an operator.
        names |= {self.target_tp(each.tp).topic for each in self.book.of(LinkStatus.FAILED)}
        back = sorted(
            name
            for name, state in orders.items()
            if state is LinkStatus.SOURCE_UNAVAILABLE and name not in names
        )
        if lost:
            await self._administration.report_source(lost, available=False)
        if back:
            await self._administration.report_source(back, available=True)

    async def raise_epochs(self, epochs: Mapping[TopicPartition, int]) -> None:
        epochs_by_target = {self.target_tp(tp): epoch for tp, epoch in epochs.items()}
        try:
            await self._administration.raise_epochs(epochs_by_target)
        except (ClientError, KafkaError) as error:
            _logger.warning("cannot raise the leader epoch of the target: %s", error)
            await asyncio.sleep(0.1)

    def target_tp(self, tp: TopicPartition) -> TopicPartition:
        return TopicPartition(self.book.topics[tp.topic].target, tp.partition)


async def origins_of(source: Client, topics: Mapping[str, TopicMetadata]) -> dict[str, MirrorOrigin]:
    """Return the topics of the source that are mirrors, with the clusters their records passed through."""
    found: dict[str, MirrorOrigin] = {}
    if await has_mirrors(source):
        for topic in await describe_mirrors(source, partitions=False):
            if topic.state != MirrorState.STOPPED:
                found[topic.name] = MirrorOrigin((*reversed(topic.path), topic.source_cluster_id))
    if MIRROR_TOPIC in topics and not topics[MIRROR_TOPIC].error:
        store = MirrorStore(source, None)
        await store.catch_up()
        for _, note in store.notes(TOPIC):
            found.setdefault(note["target"], MirrorOrigin(tuple(note["path"])))
    return found
