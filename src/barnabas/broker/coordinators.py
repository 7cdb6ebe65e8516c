"""The coordinators of this broker, kept in sync with the internal topic partitions it leads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from barnabas.cluster import Peers, changed_topics, deleted_topics
from barnabas.cluster.deltas import Delta
from barnabas.cluster.image import ConfigResourceType, MetadataImage, Resource
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.config.broker import BrokerConfig
from barnabas.controller import NewTopic, internal_topic
from barnabas.coordination import Channel, CoordinatorRuntime, RuntimeEnvironment
from barnabas.groups import GroupConfigs, GroupCoordinator, ImageTopics, group_settings
from barnabas.groups.share import ShareStates
from barnabas.groups.streams import InternalTopic, StreamsTopics
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from barnabas.replication import Partition, ReplicaManager
from barnabas.security import SELF, RequestContext
from barnabas.share import (
    DeadLetterWriter,
    ShareCoordinator,
    ShareEnvironment,
    SharePartitionManager,
    SharePersister,
    ShareSessions,
)
from barnabas.transactions import AddPartitionsToTxnManager, MarkerWriter, ProducerIds, TransactionCoordinator

logger = safe_logger(__name__)


class _LedPartition(NamedTuple):
    partition: Partition
    leader_epoch: int
    undone_appends: int
    """A change means that replayed records could not be written: the shard is reloaded."""


class CreateTopics(Protocol):
    """Creates topics on behalf of a client, or of this broker; returns the error of each."""

    def __call__(
        self, wanted: list[NewTopic], context: RequestContext = SELF
    ) -> Awaitable[dict[str, KafkaError | None]]: ...


class Coordinators:
    def __init__(
        self,
        runtime: RuntimeEnvironment,
        shares: ShareEnvironment,
        replicas: ReplicaManager,
        peers: Peers,
        producer_ids: ProducerIds,
        *,
        config: Callable[[], BrokerConfig],
        create_topics: CreateTopics,
        is_alone: bool,
    ) -> None:
        image = self._image = shares.image
        clock, settings = runtime.clock, config()
        self._replicas = replicas
        self._cluster = shares.cluster
        self._config = config
        self._create_topics = create_topics
        self._is_alone = is_alone
        self.groups: GroupCoordinator = GroupCoordinator(
            group_settings(settings),
            runtime,
            lambda: self._partition_count(CONSUMER_OFFSETS),
            ImageTopics(image),
            GroupConfigs(
                lambda group_id: image().configs.get(Resource(ConfigResourceType.GROUP, group_id), {}),
                lambda name: config()[name],
            ),
        )
        self.channel = Channel(settings.node_id, peers, clock, runtime.timers)
        self.markers = MarkerWriter(replicas, runtime.durability, clock, self.groups.complete_transaction)
        self.transactions: TransactionCoordinator = TransactionCoordinator(
            runtime,
            self.channel,
            self.markers,
            replicas,
            producer_ids,
            config=config,
            image=image,
        )
        self.admission = AddPartitionsToTxnManager(replicas, self.channel, self.transactions)
        self.streams_topics = StreamsTopics(clock, self._create_streams_topics)
        self.shares = ShareCoordinator(runtime, replicas, config, image)
        self.share_persister = SharePersister(
            self.channel, self.shares, lambda: self.create_topic(SHARE_GROUP_STATE)
        )
        dead_letters = DeadLetterWriter(
            self.channel,
            replicas,
            runtime.durability,
            shares,
            configs=self.groups.configs,
            creates_topic=lambda: config()["errors.deadletterqueue.auto.create.topics.enable"],
            create_topic=self._create_dead_letter_topic,
        )
        self.share_partitions: SharePartitionManager = SharePartitionManager(
            replicas,
            self.share_persister,
            dead_letters,
            ShareSessions(
                settings["group.share.max.share.sessions"],
                settings["barnabas.fetch.session.max.partitions"],
            ),
            shares,
            self.groups.configs,
        )
        self.share_states = ShareStates(self.groups, self.share_persister)
        self._by_topic: dict[str, CoordinatorRuntime[Any]] = {
            CONSUMER_OFFSETS: self.groups.runtime,
            TRANSACTION_STATE: self.transactions.runtime,
            SHARE_GROUP_STATE: self.shares.runtime,
        }
        self._led: dict[tuple[str, int], _LedPartition] = {}
        self.is_behind = False  # a shard failed to load or unload: `follow` must be called again

    def start(self) -> None:
        self.follow()
        self.groups.start()
        self.transactions.start()
        self.shares.start()

    def stop(self) -> None:
        self.streams_topics.stop()
        self.share_partitions.stop()
        self.shares.stop()
        self.transactions.stop()
        self.groups.stop()
        self.channel.stop()

    def applied(self, before: MetadataImage, deltas: Sequence[Delta]) -> None:
        """Follow a metadata change, after the partitions have applied it."""
        self.follow()
        changed = changed_topics(before, deltas)
        deleted = deleted_topics(before, deltas)
        if changed or deleted:
            self.groups.topics_changed(changed, deleted)
        if deleted:
            self.shares.topics_deleted({before.topics[name].topic_id for name in deleted})

    def follow(self) -> None:
        """Load the shards of partitions led by this broker and unload all others."""
        led = {
            (topic, index): _LedPartition(partition, partition.leader_epoch, partition.undone_appends)
            for topic in self._by_topic
            for index, partition in self._replicas.by_name.get(topic, {}).items()
            if partition.is_leader and not self._cluster.is_fenced
        }
        self.is_behind = False
        for tp in self._led.keys() - led.keys():
            self._move(tp, None)
        for tp, now in led.items():
            if self._led.get(tp) != now:
                self._move(tp, now)

    def _move(self, tp: tuple[str, int], now: _LedPartition | None) -> None:
        """Load or unload a shard. `_led` is updated only on success, so a failed move is retried (KAFKA-9307); other
        shards are not affected."""
        topic, index = tp
        try:
            if now is None:
                self._by_topic[topic].resigned(index)
                del self._led[tp]
            else:
                self._by_topic[topic].elected(now.partition)
                self._led[tp] = now
        except Exception:
            logger.exception("cannot load or unload the coordinator of %s-%d; retrying", topic, index)
            self.is_behind = True

    def _partition_count(self, topic: str) -> int:
        state = self._image().topics.get(topic)
        return len(state.partitions) if state is not None else 0

    async def create_topic(self, name: str) -> None:
        """Create an internal topic on first use. Raises KafkaError on failure."""
        wanted = internal_topic(self._config(), self._image(), name, is_alone=self._is_alone)
        assert wanted is not None, name
        await self._create(wanted)

    async def _create_dead_letter_topic(self, name: str, configs: Mapping[str, str]) -> None:
        await self._create(NewTopic(name, configs=configs))

    async def _create(self, wanted: NewTopic) -> None:
        failure = (await self._create_topics([wanted]))[wanted.name]
        if failure is not None and failure.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise failure

    async def _create_streams_topics(
        self, wanted: Sequence[InternalTopic], context: RequestContext
    ) -> dict[str, KafkaError | None]:
        return await self._create_topics(
            [
                NewTopic(topic.name, topic.partitions, topic.replication_factor, configs=dict(topic.configs))
                for topic in wanted
            ],
            context,
        )
