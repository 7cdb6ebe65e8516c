"""All partitions of this broker: found by name or id, and kept in step with the metadata image."""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterable, Iterator

from barnabas.cluster.deltas import (
    BrokerStored,
    ConfigsChanged,
    Delta,
    MirrorStored,
    PartitionChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from barnabas.cluster.image import MetadataImage, PartitionState, ResourceType, TopicState
from barnabas.cluster.mirrors import MirrorTopic
from barnabas.config.topic import LogConfig
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.log.dirs.manager import LogManager
from barnabas.log.failures import DiskFull
from barnabas.log.log import Log
from barnabas.log.tiering.rebuilding import is_unfinished
from barnabas.common.safe_logging import safe_logger
from barnabas.metrics.topics import TopicCounters
from barnabas.replication.partition import Partition
from barnabas.replication.progress import SingleNodeProgress, ClusterView
from barnabas.common.cooperative import finish
from barnabas.common.types import ZERO_UUID, TopicPartition, Uuid

logger = safe_logger(__name__)


class NotYetError(Exception):
    """Why a partition does not take over a state now. It is tried again by the clock, and nothing has failed."""


Partitions = dict[int, Partition]


class ReplicaManager:
    """`by_name` and `by_id` hold the same inner dictionaries; handlers on the hot path read them directly."""

    def __init__(
        self,
        broker_id: int,
        logs: LogManager,
        log_config: Callable[[MetadataImage, str], LogConfig],
        counters: Callable[[str], TopicCounters],
        cluster: ClusterView | None = None,
    ) -> None:
        self._broker_id = broker_id
        self._logs = logs
        self._log_config = log_config
        self._counters = counters
        self._cluster = cluster or SingleNodeProgress()
        self.on_applied: Callable[[Partition], None] = lambda partition: None
        """Told when a partition has taken over a state, or has left this broker (`is_retired`)."""
        self.may_lead: Callable[[Partition, PartitionState], bool] = lambda partition, state: True
        """Asked before a partition leads; if it may not yet, it is asked again by the clock."""
        self.by_name: dict[str, Partitions] = {}
        self.by_id: dict[Uuid, Partitions] = {}
        self._offline: dict[TopicPartition, str] = {}
        self._awaiting_room: dict[TopicPartition, bool] = {}
        """Offline for want of room on the disk; whether they are known to be new."""
        self._unsettled: set[TopicPartition] = set()
        """Could not take over what the controller says."""

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self.by_name.values():
            yield from partitions.values()

    def __len__(self) -> int:
        return sum(map(len, self.by_name.values()))

    def find(self, topic: str, index: int) -> Partition | None:
        partitions = self.by_name.get(topic)
        return partitions.get(index) if partitions is not None else None

    def why_missing(self, topic: str, topic_id: Uuid, index: int) -> ErrorCode:
        """What to answer for a partition, named by topic or by topic id, that is not found here."""
        if topic_id != ZERO_UUID or not topic:
            known = self._name_of(topic_id)
            if known is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
            topic = known
        if TopicPartition(topic, index) in self._offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _name_of(self, topic_id: Uuid) -> str | None:
        partitions = self.by_id.get(topic_id)
        if not partitions:  # unknown, or all of it is offline
            return next((name for name, each in self.by_name.items() if each is partitions), None)
        return next(iter(partitions.values())).topic

    @property
    def offline(self) -> dict[TopicPartition, str]:
        """Partitions that cannot be served, with the reason."""
        return self._offline

    # -- following the image ------------------------------------------------------------------------

    def load(self, image: MetadataImage) -> None:
        """What the image says is here should be on disk; what is not may be on a disk that has failed."""
        for topic in image.topics.values():
            finish(self._store(image, topic, enumerate(topic.partitions), new=False))

    def new_partitions(
        self, image: MetadataImage, deltas: Iterable[Delta]
    ) -> list[tuple[TopicPartition, Uuid]]:
        """Partitions that `apply` will create a log for."""
        found = []
        for delta in deltas:
            if isinstance(delta, TopicCreated | PartitionsAdded):
                topic = delta.topic if isinstance(delta, TopicCreated) else image.topic_by_id(delta.topic_id)
                for index, state in enumerate(topic.partitions if topic else ()):
                    if topic and self._broker_id in state.replicas and self.find(topic.name, index) is None:
                        found.append((TopicPartition(topic.name, index), topic.topic_id))
        return found

    def apply(self, image: MetadataImage, deltas: Iterable[Delta]) -> Iterator[None]:
        """One partition after the other: the caller lets others run in between."""
        for delta in deltas:
            if isinstance(delta, TopicCreated):
                yield from self._store(image, delta.topic, enumerate(delta.topic.partitions))
            elif isinstance(delta, PartitionsAdded):
                yield from self._add(image, delta)
            elif isinstance(delta, PartitionChanged):
                if topic := image.topic_by_id(delta.topic_id):
                    yield from self._store(image, topic, [(delta.index, delta.state)])
            elif isinstance(delta, TopicDeleted):
                yield from self._delete(delta.topic_id)
            elif isinstance(delta, ConfigsChanged):
                yield from self._configure(image, delta)
            elif isinstance(delta, MirrorStored):
                yield from self._use_mirror(image, delta.mirror.topic_id)
            elif isinstance(delta, BrokerStored):
                yield from self._broker_changed(delta.broker.id)

    def _broker_changed(self, broker_id: int) -> Iterator[None]:
        for partition in list(self):
            partition.broker_changed(broker_id)
            yield

    def _add(self, image: MetadataImage, delta: PartitionsAdded) -> Iterator[None]:
        if topic := image.topic_by_id(delta.topic_id):
            first = len(topic.partitions) - len(delta.partitions)
            yield from self._store(image, topic, enumerate(delta.partitions, first))

    def _use_mirror(self, image: MetadataImage, topic_id: Uuid) -> Iterator[None]:
        for partition in list(self.by_id.get(topic_id, {}).values()):
            partition.use_mirror(image.mirrors.get(topic_id))
            self.on_applied(partition)
            yield

    def _store(
        self,
        image: MetadataImage,
        topic: TopicState,
        states: Iterable[tuple[int, PartitionState]],
        *,
        new: bool = True,
    ) -> Generator[None, None, None]:
        config, mirror = self._log_config(image, topic.name), image.mirrors.get(topic.topic_id)
        for index, state in states:
            place = TopicPartition(topic.name, index)
            try:
                self._store_one(topic, place, state, config, new, mirror)
                self._unsettled.discard(place)
            except NotYetError:
                self._unsettled.add(place)
            except Exception:
                # The others must not suffer for it, and it is tried again by the clock (KAFKA-9307).
                if place not in self._unsettled:
                    logger.exception("%s cannot take over what the controller says; it is tried again", place)
                self._unsettled.add(place)
            yield

    def _store_one(
        self,
        topic: TopicState,
        place: TopicPartition,
        state: PartitionState,
        config: LogConfig,
        new: bool,
        mirror: MirrorTopic | None,
    ) -> None:
        partitions = self.by_name.get(topic.name, {})
        index = place.partition
        if self._broker_id in state.replicas:
            # A topic of which nothing can be opened is known all the same: clients hear why.
            self.by_name[topic.name] = self.by_id[topic.topic_id] = partitions
            partition = partitions.get(index) or self._open(topic, index, config, new)
            if partition is not None:
                partitions[index] = partition
                partition.use_mirror(mirror)
                self._apply(partition, state, config)
        elif partition := partitions.pop(index, None):
            self._remove(partition)
        elif self._awaiting_room.pop(place, None) is not None:
            self._offline.pop(place, None)

    def _apply(self, partition: Partition, state: PartitionState, config: LogConfig) -> None:
        try:
            if partition.log.config is not config:
                # Who fell behind hears of many entries at once. A state must never meet settings of another image:
                # with a smaller minimum than the controller went by, we would commit what those who are eligible lack.
                partition.log.update_config(config)
            if state.leader == self._broker_id and not self.may_lead(partition, state):
                raise NotYetError
            partition.apply(state)
        except Exception:
            partition.is_unsettled = True
            try:
                partition.step_down()
            finally:
                self.on_applied(partition)
            raise
        self.on_applied(partition)

    def _open(self, topic: TopicState, index: int, config: LogConfig, new: bool) -> Partition | None:
        place = TopicPartition(topic.name, index)
        is_new = self._awaiting_room.pop(place, new and place not in self._offline)
        was_here = self._logs.get(place) is not None
        try:
            log = self._logs.create(place, topic.topic_id, config, is_new=is_new)
        except (KafkaError, OSError) as error:
            if self._offline.get(place) != str(error):
                logger.error("%s is offline: %s", place, error)
            self._offline[place] = str(error)
            if isinstance(error, DiskFull):
                self._awaiting_room[place] = is_new
            return None
        self._offline.pop(place, None)
        partition = Partition(
            topic.name, index, topic.topic_id, log, self._broker_id, self._counters(topic.name), self._cluster
        )
        partition.has_lost_log = not is_new and (not was_here or is_unfinished(log))
        return partition

    def _delete(self, topic_id: Uuid) -> Iterator[None]:
        name = self._name_of(topic_id)
        if name is None:
            return
        del self.by_name[name]
        for partition in self.by_id.pop(topic_id).values():
            self._remove(partition)
            yield
        for place in [place for place in self._offline if place.topic == name]:
            del self._offline[place]
            self._awaiting_room.pop(place, None)
            self._delete_log(place)

    def _remove(self, partition: Partition) -> None:
        partition.retire()
        self.on_applied(partition)
        self._delete_log(partition.topic_partition)

    def _delete_log(self, place: TopicPartition) -> None:
        try:
            self._logs.delete(place)
        except KafkaError as error:
            # It is gone from the image all the same; what is left of it is set aside at the next start.
            logger.error("the files of %s cannot be removed: %s", place, error)

    def _configure(self, image: MetadataImage, delta: ConfigsChanged) -> Iterator[None]:
        if delta.resource_type == ResourceType.TOPIC:
            names = [delta.resource_name]
        elif delta.resource_type == ResourceType.BROKER:
            names = list(self.by_name)
        else:
            return
        for name in names:
            config = self._log_config(image, name)
            for partition in list(self.by_name.get(name, {}).values()):
                try:
                    partition.update_config(config)
                except Exception:
                    logger.exception("%s cannot take over its settings", partition.topic_partition)
                yield

    # -- by the clock, and in need ------------------------------------------------------------------

    def review_isr(self, patience: float, most_behind: int) -> Iterator[None]:
        """One partition after the other: the caller lets others run in between."""
        for partition in list(self):
            partition.review_isr(patience, most_behind)
            yield

    @property
    def is_awaiting_room(self) -> bool:
        return bool(self._awaiting_room)

    def settle(self, place: TopicPartition, newest_image: Callable[[], MetadataImage]) -> None:
        """What kept a partition from leading is over: it need not wait for the clock."""
        if place in self._unsettled:
            finish(self._store_again(newest_image, [place], self._unsettled))

    def try_again(self, newest_image: Callable[[], MetadataImage]) -> Generator[None, None, bool]:
        """Open what could not be opened for want of room, and take over what could not be taken over; True when
        something is served now that was not."""
        opened = yield from self._store_again(newest_image, list(self._awaiting_room), self._offline)
        if opened:
            logger.info("there is room on the disk again, and %d partitions are online", opened)
        settled = yield from self._store_again(newest_image, list(self._unsettled), self._unsettled)
        if settled:
            logger.info("%d partitions have taken over what the controller says, at last", settled)
        return bool(opened or settled)

    def _store_again(
        self,
        newest_image: Callable[[], MetadataImage],
        places: list[TopicPartition],
        still: Container[TopicPartition],
    ) -> Generator[None, None, int]:
        """One partition after the other, each as the image is then; how many of them are settled now."""
        for place in places:
            image = newest_image()
            topic = image.topics.get(place.topic)
            if topic is not None and (state := topic.partition(place.partition)) is not None:
                yield from self._store(image, topic, [(place.partition, state)])
            else:
                self._unsettled.discard(place)  # its topic is gone
        return sum(place not in still for place in places)

    def fence(self) -> None:
        """The session is lost: accept nothing until the controller has spoken again."""
        for partition in self:
            partition.fence()

    def unfence(self) -> None:
        """The broker is registered again: what it still leads may be written."""
        for partition in self:
            partition.unfence()

    # -- failures -----------------------------------------------------------------------------------

    def take_offline(self, broken: Callable[[Log], bool], reason: str) -> None:
        """Stop serving every partition whose log lies on a disk that failed."""
        for name, partitions in list(self.by_name.items()):
            for index, partition in list(partitions.items()):
                if broken(partition.log):
                    self._offline[TopicPartition(name, index)] = reason
                    del partitions[index]
                    partition.retire(ErrorCode.KAFKA_STORAGE_ERROR)
                    self.on_applied(partition)
