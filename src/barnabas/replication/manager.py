"""All partitions of this broker, by name or id, kept in step with the metadata image."""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterable, Iterator
from contextlib import suppress

from barnabas.cluster import MirrorTopic
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
from barnabas.cluster.image import NO_LEADER, ConfigResourceType, MetadataImage, PartitionState, TopicState
from barnabas.common.cooperative import finish
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import ZERO_UUID, TopicPartition, Uuid
from barnabas.config.topic import LogConfig
from barnabas.log import DiskFull, Log
from barnabas.log.dirs import LogManager
from barnabas.log.tiering import is_unfinished
from barnabas.metrics import TopicCounters
from barnabas.replication.partition import Partition
from barnabas.replication.progress import ClusterView, SingleNodeProgress
from barnabas.replication.transfers import PartitionTransfers

logger = safe_logger(__name__)


class NotYetError(Exception):
    """The partition cannot take over a state yet. It is retried periodically; nothing has failed."""


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
        """Called when a partition has taken over a state, or has left this broker (`is_retired`)."""
        self.may_lead: Callable[[Partition, PartitionState], bool] = lambda partition, state: True
        """Called before a partition leads; if it may not lead yet, it is retried periodically."""
        self.store_covers: Callable[[TopicPartition, Uuid, int], bool | None] = lambda tp, topic_id, end: (
            False
        )
        """Called before an empty log replaces a missing one: True if the object store holds everything below this
        offset, None if that is not known yet (`settle` follows)."""
        self.transfers: PartitionTransfers | None = None  # of a node with several processes
        self.by_name: dict[str, Partitions] = {}
        self.by_id: dict[Uuid, Partitions] = {}
        self._offline: dict[TopicPartition, str] = {}
        self._awaiting_room: dict[TopicPartition, bool] = {}
        """Offline because the disk is full; the value is True for new partitions."""
        self._awaiting_store: set[TopicPartition] = set()
        """Missing logs of which `store_covers` does not know yet."""
        self._unsettled: set[TopicPartition] = set()
        """Partitions that failed to take over the controller's state."""

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self.by_name.values():
            yield from partitions.values()

    def __len__(self) -> int:
        return sum(map(len, self.by_name.values()))

    def find(self, topic: str, index: int) -> Partition | None:
        partitions = self.by_name.get(topic)
        return partitions.get(index) if partitions is not None else None

    def why_missing(self, topic: str, topic_id: Uuid, index: int) -> ErrorCode:
        """The error code for a partition, named by topic or by topic id, that is not found here."""
        if topic_id != ZERO_UUID or not topic:
            known = self._name_of(topic_id)
            if known is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
            topic = known
        tp = TopicPartition(topic, index)
        if tp in self._offline or tp in self._awaiting_store:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _name_of(self, topic_id: Uuid) -> str | None:
        partitions = self.by_id.get(topic_id)
        if not partitions:  # unknown, or entirely offline
            return next((name for name, each in self.by_name.items() if each is partitions), None)
        return next(iter(partitions.values())).topic

    @property
    def offline(self) -> dict[TopicPartition, str]:
        """Partitions that cannot be served, with the reason."""
        return self._offline

    # -- following the image ------------------------------------------------------------------------

    def load(self, image: MetadataImage) -> None:
        """Load the partitions of the image. One that is missing may be on a failed disk."""
        # All of them before the first is created: one checkpoint write for all.
        for tp in list(self._logs.damaged):
            topic_state = image.topics.get(tp.topic)
            state = topic_state.partition(tp.partition) if topic_state is not None else None
            if topic_state is not None and state is not None:
                with suppress(NotYetError):  # it is raised again below
                    config = self._log_config(image, tp.topic)
                    self._begin_again_if_missing(tp, topic_state.topic_id, state, config)
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
        """Apply deltas partition by partition: the caller yields in between."""
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
            tp = TopicPartition(topic.name, index)
            try:
                self._store_one(topic, tp, state, config, new, mirror)
                self._unsettled.discard(tp)
            except NotYetError:
                self._unsettled.add(tp)
            except Exception:
                # Continue with the others; this one is retried periodically (KAFKA-9307).
                if tp not in self._unsettled:
                    logger.exception("%s cannot take over the controller's state; retrying", tp)
                self._unsettled.add(tp)
            yield

    def _store_one(
        self,
        topic: TopicState,
        tp: TopicPartition,
        state: PartitionState,
        config: LogConfig,
        new: bool,
        mirror: MirrorTopic | None,
    ) -> None:
        partitions = self.by_name.get(topic.name, {})
        index = tp.partition
        if self._broker_id in state.replicas:
            # Register a topic even if none of its partitions can be opened: clients get the reason.
            self.by_name[topic.name] = self.by_id[topic.topic_id] = partitions
            if self.transfers is not None and index not in partitions and not self.transfers.may_open(tp):
                raise NotYetError
            self._begin_again_if_missing(tp, topic.topic_id, state, config)
            partition = partitions.get(index) or self._open(topic, index, config, new)
            if partition is not None:
                partitions[index] = partition
                partition.use_mirror(mirror)
                self._apply(partition, state, config)
        elif self.transfers is not None and self.transfers.stays_on_node(state):
            self._forget(tp)
            if partition := partitions.pop(index, None):
                self._leave(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self.transfers.hand_over(tp)
        elif partition := partitions.pop(index, None):
            self._remove(partition)
        elif tp in self._awaiting_room or tp in self._logs.damaged:
            self._forget(tp)
            self._delete_log(tp)

    def _apply(self, partition: Partition, state: PartitionState, config: LogConfig) -> None:
        try:
            if partition.log.config is not config:
                # A broker that lags applies many entries at once. A state must never be combined with settings of
                # another image: with a smaller min.insync.replicas than the controller used, we would commit
                # records that eligible replicas lack.
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

    def _begin_again_if_missing(
        self, tp: TopicPartition, topic_id: Uuid, state: PartitionState, config: LogConfig
    ) -> None:
        """Decide whether an empty log may replace one whose folder is missing (log/dirs/missing.py)."""
        missing = self._logs.missing(tp)
        if missing is None:
            return
        in_sync = {*state.isr, *state.elr}
        copies_all = state.leader not in (NO_LEADER, self._broker_id) and self._broker_id not in in_sync
        asks_store = config.remote_storage_enable and config.barnabas_remote_unclean_wait
        is_alone = in_sync <= {self._broker_id}
        may_begin: bool | None = copies_all or (is_alone and missing.is_accepted)
        if not may_begin and is_alone and asks_store:
            may_begin = self.store_covers(tp, topic_id, missing.end)
        if may_begin is None:
            self._awaiting_store.add(tp)
            raise NotYetError
        if may_begin:
            logger.warning("%s starts with an empty log: the folder %s is missing", tp, missing.folder)
            self._logs.give_up_missing(tp)

    def _open(self, topic: TopicState, index: int, config: LogConfig, new: bool) -> Partition | None:
        tp = TopicPartition(topic.name, index)
        was_known = tp in self._offline or tp in self._awaiting_store
        self._awaiting_store.discard(tp)
        is_new = self._awaiting_room.pop(tp, new and not was_known)
        was_here = self._logs.get(tp) is not None
        try:
            log = self._logs.create(tp, topic.topic_id, config, is_new=is_new)
        except (KafkaError, OSError) as error:
            if self._offline.get(tp) != str(error):
                logger.error("%s is offline: %s", tp, error)
            self._offline[tp] = str(error)
            if isinstance(error, DiskFull):
                self._awaiting_room[tp] = is_new
            return None
        self._offline.pop(tp, None)
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
        for tp in [tp for tp in (*self._offline, *self._awaiting_store) if tp.topic == name]:
            self._forget(tp)
            self._delete_log(tp)

    def _forget(self, tp: TopicPartition) -> None:
        self._offline.pop(tp, None)
        self._awaiting_store.discard(tp)
        self._awaiting_room.pop(tp, None)

    def _remove(self, partition: Partition) -> None:
        self._leave(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self._delete_log(partition.topic_partition)

    def _leave(self, partition: Partition, reason: ErrorCode) -> None:
        partition.retire(reason)
        self.on_applied(partition)

    def _delete_log(self, tp: TopicPartition) -> None:
        log = self._logs.get(tp)
        try:
            self._logs.delete(tp)
        except KafkaError as error:  # the rest is set aside at the next start
            logger.error("cannot remove the files of %s: %s", tp, error)
        if self.transfers is not None:
            self.transfers.deleted(tp, log)

    def _configure(self, image: MetadataImage, delta: ConfigsChanged) -> Iterator[None]:
        is_topic = delta.resource_type == ConfigResourceType.TOPIC
        if not is_topic and delta.resource_type != ConfigResourceType.BROKER:
            return
        for name in [delta.resource_name] if is_topic else list(self.by_name):
            config = self._log_config(image, name)
            for partition in list(self.by_name.get(name, {}).values()):
                try:
                    partition.update_config(config)
                except Exception:
                    logger.exception("%s cannot take over its settings", partition.topic_partition)
                yield

    # -- by the clock, and in need ------------------------------------------------------------------

    def review_isr(self, max_lag: float, max_lag_records: int) -> Iterator[None]:
        """Review the ISRs partition by partition: the caller yields in between."""
        for partition in list(self):
            partition.review_isr(max_lag, max_lag_records)
            yield

    def settle(self, tp: TopicPartition, newest_image: Callable[[], MetadataImage]) -> None:
        """Retry a partition now, because the obstacle to its leadership is removed."""
        if tp in self._unsettled:
            finish(self._store_again(newest_image, [tp], self._unsettled))

    def try_again(self, newest_image: Callable[[], MetadataImage]) -> Generator[None, None, bool]:
        """Open partitions that did not fit on the disk, and retry failed state changes; True if a partition came
        online."""
        opened = yield from self._store_again(newest_image, list(self._awaiting_room), self._offline)
        if opened:
            logger.info("disk space is available again: %d partitions are online", opened)
        settled = yield from self._store_again(newest_image, list(self._unsettled), self._unsettled)
        if settled:
            logger.info("%d partitions have taken over the controller's state after a retry", settled)
        return bool(opened or settled)

    def _store_again(
        self,
        newest_image: Callable[[], MetadataImage],
        partitions: list[TopicPartition],
        still: Container[TopicPartition],
    ) -> Generator[None, None, int]:
        """Retry partition by partition, each with the image at that time; returns the number that succeeded."""
        for tp in partitions:
            image = newest_image()
            topic = image.topics.get(tp.topic)
            if topic is not None and (state := topic.partition(tp.partition)) is not None:
                yield from self._store(image, topic, [(tp.partition, state)])
            else:
                self._unsettled.discard(tp)  # its topic was deleted
        return sum(tp not in still for tp in partitions)

    def fence(self) -> None:
        """Accept no writes until this broker is registered again: its session is lost."""
        for partition in self:
            partition.fence()

    def unfence(self) -> None:
        """Accept writes again after registration, for partitions that this broker still leads."""
        for partition in self:
            partition.unfence()

    # -- failures -----------------------------------------------------------------------------------

    def take_offline(self, broken: Callable[[Log], bool], reason: str) -> None:
        """Stop serving every partition whose log is on the failed disk."""
        for name, partitions in list(self.by_name.items()):
            for index, partition in list(partitions.items()):
                if broken(partition.log):
                    self._offline[TopicPartition(name, index)] = reason
                    del partitions[index]
                    self._leave(partition, ErrorCode.KAFKA_STORAGE_ERROR)
