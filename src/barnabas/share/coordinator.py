"""The share coordinator of a broker (Kafka's ShareCoordinatorService): `state_shard` on the coordinator
runtime.

Its topic is not compacted. Records that the newest snapshots make obsolete are deleted periodically.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from barnabas.cluster.image import MetadataImage
from barnabas.common.clock import Timer
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.common.types import Uuid
from barnabas.config.broker import BrokerConfig
from barnabas.coordination import (
    CoordinatorResult,
    CoordinatorRuntime,
    Done,
    RuntimeEnvironment,
    coordinator_error,
)
from barnabas.protocol.internal_topics import SHARE_GROUP_STATE, SharePartitionKey, partition_for
from barnabas.replication import ReplicaManager
from barnabas.share.state_shard import ShareStateShard, StateWrite
from barnabas.share.stored_state import StoredState

logger = rate_limited_logger(__name__)

MAX_SNAPSHOTS_AT_ONCE = 100

R = TypeVar("R")


class ShareCoordinator:
    def __init__(
        self,
        environment: RuntimeEnvironment,
        replicas: ReplicaManager,
        config: Callable[[], BrokerConfig],
        image: Callable[[], MetadataImage],
    ) -> None:
        self._environment = environment
        self._replicas = replicas
        self._config = config
        self._image = image
        self.runtime: CoordinatorRuntime[ShareStateShard] = CoordinatorRuntime(
            SHARE_GROUP_STATE,
            self._make_shard,
            environment,
            config()["share.coordinator.write.timeout.ms"],
            is_compacted=False,  # updates of one key are deltas; those before a snapshot are deleted
        )
        self._pruner: Timer | None = None

    def _make_shard(self, index: int) -> ShareStateShard:
        return ShareStateShard(
            self._knows_partition,
            self._environment.clock.now_ms,
            self._config()["share.coordinator.snapshot.update.records.per.snapshot"],
        )

    def _knows_partition(self, key: SharePartitionKey) -> bool:
        topic = self._image().topic_by_id(key.topic_id)
        return topic is not None and key.partition < len(topic.partitions)

    def start(self) -> None:
        seconds = self._config()["share.coordinator.state.topic.prune.interval.ms"] / 1000
        self._pruner = self._environment.timers.call_later(seconds, self._prune)

    def stop(self) -> None:
        if self._pruner is not None:
            self._pruner.cancel()
        self.runtime.stop()

    # -- partition of a share partition's state ----------------------------------------------------

    @property
    def has_topic(self) -> bool:
        """True if the topic exists; it is created on first use."""
        return SHARE_GROUP_STATE in self._image().topics

    def index_of(self, key: SharePartitionKey) -> int:
        topic = self._image().topics.get(SHARE_GROUP_STATE)
        if topic is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"{SHARE_GROUP_STATE} does not exist yet")
        return partition_for(key.coordinator_key, len(topic.partitions))

    def leader_of(self, key: SharePartitionKey) -> int:
        """The broker that coordinates a share partition's state; -1 if there is none at the moment."""
        return self._image().topics[SHARE_GROUP_STATE].partitions[self.index_of(key)].leader

    # -- requests -------------------------------------------------------------------------------------

    def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, done: Done[None]
    ) -> None:
        self._write(key, lambda shard: shard.initialize(key, state_epoch, start_offset), done)

    def delete(self, key: SharePartitionKey, done: Done[None]) -> None:
        self._write(key, lambda shard: shard.delete(key), done)

    def read(self, key: SharePartitionKey, leader_epoch: int, done: Done[StoredState]) -> None:
        self._write(key, lambda shard: shard.read(key, leader_epoch), done)

    def summary(self, key: SharePartitionKey, done: Done[StoredState]) -> None:
        try:
            index = self.index_of(key)
        except KafkaError as error:
            done(error)
            return
        self.runtime.read(index, lambda shard: shard.summary(key), _translated(done))

    def write(self, key: SharePartitionKey, state_write: StateWrite, done: Done[None]) -> None:
        """Store a change, in one batch with others of the same loop iteration."""
        self._write(key, lambda shard: shard.write(key, state_write), done, is_batched=True)

    def _write(
        self,
        key: SharePartitionKey,
        handle: Callable[[ShareStateShard], CoordinatorResult[R]],
        done: Done[R],
        *,
        is_batched: bool = False,
    ) -> None:
        try:
            index = self.index_of(key)
        except KafkaError as error:
            done(error)
            return
        self.runtime.write(index, handle, _translated(done), is_batched=is_batched)

    # -- background work ---------------------------------------------------------------------------

    def topics_deleted(self, topic_ids: set[Uuid]) -> None:
        for index, _ in self.runtime.shards():
            self.runtime.write(index, lambda shard: shard.forget_topics(topic_ids), _log_failure)

    def _prune(self) -> None:
        """Delete records before every partition's newest snapshot; the topic is never compacted (KIP-932)."""
        self.start()
        for index, shard in self.runtime.shards():
            partition = self._replicas.find(SHARE_GROUP_STATE, index)
            if partition is None:
                continue
            end = partition.log.log_end_offset
            renew = partial(ShareStateShard.renew_old_snapshots, log_end=end, limit=MAX_SNAPSHOTS_AT_ONCE)
            self.runtime.write(index, renew, _log_failure)
            needed = min(shard.first_needed_offset(end), partition.log.high_watermark)
            if needed > partition.log.log_start_offset:
                partition.log.advance_log_start(needed)
                partition.log_start_moved()


def _log_failure(outcome: object) -> None:
    if isinstance(outcome, KafkaError):
        logger.warning("the share coordinator will retry: %s", outcome)


def _translated(done: Done[R]) -> Done[R]:
    def finished(outcome: R | KafkaError) -> None:
        done(_for_leader(outcome) if isinstance(outcome, KafkaError) else outcome)

    return finished


def _for_leader(error: KafkaError) -> KafkaError:
    """Map an error for the leader of a share partition: it retries, or reloads the state."""
    if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return error  # of the share partition itself
    return KafkaError(coordinator_error(error.code, too_large=error.code), error.message)
