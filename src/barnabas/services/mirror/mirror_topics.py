"""Target topics of a mirror, of two kinds: mirror topics of Barnabas, and plain topics.

The state of a mirror topic in the target's metadata controls the mirror. Plain topics are those of a target without
mirror support (Apache Kafka) and merged topics; `__barnabas_mirror` controls them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from barnabas.client import Client
from barnabas.client.admin import create_partitions, create_topic
from barnabas.client.mirrors import (
    LinkName,
    act_on_mirrors,
    alter_mirrors,
    describe_mirrors,
    fail_partitions,
    raise_leader_epochs,
)
from barnabas.client.mirrors.store import ALL, CONTROL, TOPIC, LinkStatus, MirrorStore
from barnabas.client.offsets import end_offsets
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.mirror import AlteredMirrorTopic, MirrorAction, MirrorConfig, MirrorState
from barnabas.services.mirror.configs import Settings, to_follow
from barnabas.services.mirror.plan import PlannedTopic

# -- Plain topics --------------------------------------------------------------------------------------


class PlainTopics:
    """Topics of one link; with `merge`, other links may share them."""

    def __init__(
        self, client: Client, store: MirrorStore, *, merge: bool = False, replication_factor: int = -1
    ) -> None:
        self._client = client
        self._store = store
        self._merge = merge
        self._factor = replication_factor
        self._names: dict[str, str] = {}

    async def ensure(
        self, planned: Sequence[PlannedTopic], settings: Mapping[str, Settings]
    ) -> dict[str, str]:
        """Create missing topics and partitions. Return the reasons for failures by target name."""
        there, refused = await self._client.all_topics(), dict[str, str]()
        for topic in planned:
            self._names[topic.target] = topic.source.name
            known, note = there.get(topic.target), self._store.get(TOPIC, topic.source.name)
            try:
                if known is None or known.error:
                    await self._create(topic, settings.get(topic.source.name, {}))
                elif note is None and not self._merge and not await self._is_empty(topic.target):
                    refused[topic.target] = (
                        f"topic {topic.target} exists and is not a mirror: use --rename or --merge"
                    )
                    continue
                elif len(known.partitions) < len(topic.source.partitions):
                    await create_partitions(self._client, topic.target, len(topic.source.partitions))
                await self._note(topic, note)
            except KafkaError as error:
                refused[topic.target] = str(error)
        return refused

    async def _create(self, topic: PlannedTopic, settings: Settings) -> None:
        try:
            await create_topic(
                self._client,
                topic.target,
                partitions=len(topic.source.partitions),
                replication_factor=self._factor,
                configs=to_follow(settings),
            )
        except KafkaError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        await self._client.topics([topic.target])

    async def _is_empty(self, name: str) -> bool:
        """True if the topic has no records: a mirror that died before it recorded the topic can adopt it."""
        ends = await end_offsets(self._client, await self._client.partitions([name]))
        return not any(ends.values())

    async def _note(self, topic: PlannedTopic, note: Any) -> None:
        """Record the clusters its records passed through, to detect loops here and in mirrors of this cluster."""
        expected = {"target": topic.target, "id": topic.source.id.hex(), "path": list(topic.path)}
        if note is None:
            await self._store.put({(TOPIC, topic.source.name): expected})

    async def orders(self) -> dict[str, LinkStatus]:
        """Return the requested states by target name."""
        await self._store.catch_up()
        everything = self._store.get(CONTROL, ALL, value_type=LinkStatus)
        return {
            target: self._store.get(CONTROL, target, value_type=LinkStatus) or everything or LinkStatus.ACTIVE
            for target in self._names
        }

    async def known_failures(self, names: Iterable[str]) -> dict[TopicPartition, str]:
        """Failures are not stored."""
        return {}

    async def failed(self, names: Iterable[str]) -> set[TopicPartition]:
        """Return all partitions: a failure lasts until the mirror is restarted."""
        return {
            TopicPartition(name, index)
            for name in names
            for index in self._client.metadata.topics[name].partitions
        }

    async def report_failed(self, reasons: Mapping[TopicPartition, str]) -> None:
        """No-op: the status report includes failures."""

    async def report_source(self, names: Sequence[str], *, available: bool) -> None:
        """No-op: the status report includes it."""

    async def raise_epochs(self, epochs: Mapping[TopicPartition, int]) -> None:
        """No-op: the target assigns its own epochs."""


STATES = {
    MirrorState.ACTIVE: LinkStatus.ACTIVE,
    MirrorState.PAUSED: LinkStatus.PAUSED,
    MirrorState.SOURCE_UNAVAILABLE: LinkStatus.SOURCE_UNAVAILABLE,
    MirrorState.FAILED: LinkStatus.FAILED,
    MirrorState.PROMOTING: LinkStatus.PROMOTING,
    MirrorState.STOPPED: LinkStatus.STOPPED,
    MirrorState.REVERSING: LinkStatus.PAUSED,  # until the logs are truncated
}
AT_ONCE = 100  # topics per request


class MirrorTopics:
    """Mirror topics of one link, by target name."""

    def __init__(self, client: Client, link: str, source_cluster: str, replication_factor: int = -1) -> None:
        self._client = client
        self._link = LinkName(link, source_cluster)
        self._factor = replication_factor

    async def ensure(
        self, planned: Sequence[PlannedTopic], settings: Mapping[str, Settings]
    ) -> dict[str, str]:
        """Create missing topics and partitions. Return the reasons for failures by target name."""
        refused: dict[str, str] = {}
        for path, topics in groupby(sorted(planned, key=lambda each: each.path), key=lambda each: each.path):
            expected = [self._wanted(topic, settings.get(topic.source.name, {})) for topic in topics]
            link = LinkName(self._link.name, self._link.source_cluster, tuple(reversed(path[:-1])))
            for start in range(0, len(expected), AT_ONCE):
                altered = await alter_mirrors(self._client, link, expected[start : start + AT_ONCE])
                for name, error in altered.refused.items():
                    if error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                        raise error  # no topic at all can be mirrored
                    refused[name] = str(error)
        return refused

    def _wanted(self, topic: PlannedTopic, settings: Settings) -> AlteredMirrorTopic:
        return AlteredMirrorTopic(
            name=topic.target,
            action=int(MirrorAction.CREATE),
            source_name=topic.source.name,
            source_topic_id=topic.source.id,
            num_partitions=len(topic.source.partitions),
            replication_factor=self._factor,
            configs=[MirrorConfig(name=name, value=value) for name, value in to_follow(settings).items()],
        )

    async def orders(self) -> dict[str, LinkStatus]:
        """Return the mirror states of this link's topics by target name."""
        return {
            topic.name: STATES[MirrorState(topic.state)]
            for topic in await describe_mirrors(self._client, partitions=False)
            if topic.link == self._link.name
        }

    async def failed(self, names: Iterable[str]) -> set[TopicPartition]:
        """Partitions in state FAILED; `barnabas mirror resume` clears it."""
        return set(await self.known_failures(names))

    async def known_failures(self, names: Iterable[str]) -> dict[TopicPartition, str]:
        """Failed partitions with their reasons."""
        expected = sorted(set(names))
        if not expected:
            return {}
        return {
            TopicPartition(topic.name, partition.index): partition.reason or topic.reason
            for topic in await describe_mirrors(self._client, expected)
            for partition in topic.partitions
            if MirrorState.FAILED in (partition.state, topic.state)
        }

    async def report_failed(self, reasons: Mapping[TopicPartition, str]) -> None:
        by_topic: dict[str, dict[int, str]] = defaultdict(dict)
        for (name, index), reason in reasons.items():
            by_topic[name][index] = reason
        (await fail_partitions(self._client, self._link, by_topic)).raise_first()

    async def report_source(self, names: Sequence[str], *, available: bool) -> None:
        action = MirrorAction.ACTIVATE if available else MirrorAction.SOURCE_UNAVAILABLE
        await act_on_mirrors(self._client, self._link, action, names)

    async def raise_epochs(self, epochs: Mapping[TopicPartition, int]) -> None:
        by_topic: dict[str, dict[int, int]] = defaultdict(dict)
        for (name, index), epoch in epochs.items():
            by_topic[name][index] = epoch
        (await raise_leader_epochs(self._client, self._link, by_topic)).raise_first()
        await self._client.refresh_quietly(by_topic)
