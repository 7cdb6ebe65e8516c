"""The coordinators of this broker, kept in step with which partitions of the internal topics it leads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.cluster.deltas import Delta
from barnabas.cluster.image import MetadataImage, Resource, ResourceType
from barnabas.cluster.names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from barnabas.coordination.runtime import Coordinator
from barnabas.errors import ErrorCode
from barnabas.groups.configs import GroupConfigs
from barnabas.groups.coordinator import GroupCoordinator
from barnabas.groups.settings import group_settings
from barnabas.groups.topics import Topics
from barnabas.log_lines import safe_logger
from barnabas.replication.partition import Partition
from barnabas.server.forwarding import create_topics
from barnabas.server.internal_topics import internal_topic
from barnabas.server.share_coordinator import ShareCoordinator
from barnabas.server.share_partitions import SharePartitions
from barnabas.server.share_state import ShareStates
from barnabas.server.streams_topics import StreamsTopics
from barnabas.server.topic_changes import changed_topics, deleted_topics
from barnabas.server.transaction_coordinator import TransactionCoordinator

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

logger = safe_logger(__name__)


class _Led(NamedTuple):
    partition: Partition
    leader_epoch: int


class Coordinators:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.groups = GroupCoordinator(
            group_settings(broker.config),
            broker,
            lambda: self._partition_count(CONSUMER_OFFSETS),
            Topics(lambda: broker.image),
            GroupConfigs(
                lambda group_id: broker.image.configs.get(Resource(ResourceType.GROUP, group_id), {}),
                lambda name: broker.config[name],
            ),
        )
        self.transactions = TransactionCoordinator(broker)
        self.streams_topics = StreamsTopics(broker)
        self.shares = ShareCoordinator(broker)
        self.share_partitions = SharePartitions(broker)
        self.share_states = ShareStates(broker)
        self._by_topic: dict[str, Coordinator[Any]] = {
            CONSUMER_OFFSETS: self.groups.runtime,
            TRANSACTION_STATE: self.transactions.runtime,
            SHARE_GROUP_STATE: self.shares.runtime,
        }
        self._led: dict[tuple[str, int], _Led] = {}
        self.is_behind = False  # something did not move as the partitions did: `follow` once more

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

    def applied(self, before: MetadataImage, deltas: Sequence[Delta]) -> None:
        """The metadata have changed, and the partitions with them."""
        self.follow()
        changed = changed_topics(before, deltas)
        deleted = deleted_topics(before, deltas)
        if changed or deleted:
            self.groups.topics_changed(changed, deleted)
        if deleted:
            self.shares.topics_deleted({before.topics[name].topic_id for name in deleted})

    def follow(self) -> None:
        """Take over the shards of partitions that we lead now, and let go of the others."""
        led = {
            (topic, index): _Led(partition, partition.leader_epoch)
            for topic in self._by_topic
            for index, partition in self._broker.replicas.by_name.get(topic, {}).items()
            if partition.is_leader and not self._broker.is_fenced
        }
        self.is_behind = False
        for place in self._led.keys() - led.keys():
            self._move(place, None)
        for place, now in led.items():
            if self._led.get(place) != now:
                self._move(place, now)

    def _move(self, place: tuple[str, int], now: _Led | None) -> None:
        """What we lead is known only when its shard has moved: one that fails half way moves again (KAFKA-9307), and
        holds up no others."""
        topic, index = place
        try:
            if now is None:
                self._by_topic[topic].resigned(index)
                del self._led[place]
            else:
                self._by_topic[topic].elected(now.partition)
                self._led[place] = now
        except Exception:
            logger.exception("the coordinator of %s-%d cannot move; it is tried again", topic, index)
            self.is_behind = True

    def _partition_count(self, topic: str) -> int:
        state = self._broker.image.topics.get(topic)
        return len(state.partitions) if state is not None else 0

    async def create_topic(self, name: str) -> None:
        """Create an internal topic when it is needed for the first time; KafkaError if that fails."""
        broker = self._broker
        wanted = internal_topic(broker.config, broker.image, name, is_alone=broker.is_alone)
        assert wanted is not None, name
        failure = (await create_topics(broker, [wanted]))[name]
        if failure is not None and failure.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise failure
