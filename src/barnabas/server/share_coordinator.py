"""The share coordinator of a broker: `queues.state_shard` on the coordinators' runtime, with a log kept short."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from barnabas.clock import Timer
from barnabas.cluster.names import SHARE_GROUP_STATE
from barnabas.coordination.keys import partition_for
from barnabas.coordination.runtime import Coordinator
from barnabas.errors import ErrorCode, KafkaError
from barnabas.log_lines import limited_logger
from barnabas.queues.state_shard import ShareStateShard, StateWrite
from barnabas.queues.stored_state import ShareKey, StoredState
from barnabas.types import Uuid

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

logger = limited_logger(__name__)

MOST_SNAPSHOTS_AT_ONCE = 100

Done = Callable[[KafkaError | None], None]


class ShareCoordinator:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.runtime: Coordinator[ShareStateShard] = Coordinator(
            SHARE_GROUP_STATE,
            self._make_shard,
            broker,
            broker.config["share.coordinator.write.timeout.ms"],
            is_compacted=False,  # updates of one key add up; what a snapshot makes superfluous is deleted
        )
        self._pruner: Timer | None = None

    def _make_shard(self, index: int) -> ShareStateShard:
        return ShareStateShard(
            self._knows_partition,
            self._broker.clock.now_ms,
            self._broker.config["share.coordinator.snapshot.update.records.per.snapshot"],
        )

    def _knows_partition(self, key: ShareKey) -> bool:
        topic = self._broker.image.topic_by_id(key.topic_id)
        return topic is not None and key.partition < len(topic.partitions)

    def start(self) -> None:
        seconds = self._broker.config["share.coordinator.state.topic.prune.interval.ms"] / 1000
        self._pruner = self._broker.timers.call_later(seconds, self._prune)

    def stop(self) -> None:
        if self._pruner is not None:
            self._pruner.cancel()
        self.runtime.stop()

    # -- where a share partition's state lives --------------------------------------------------------

    def index_of(self, key: ShareKey) -> int:
        topic = self._broker.image.topics.get(SHARE_GROUP_STATE)
        if topic is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"{SHARE_GROUP_STATE} does not exist yet")
        return partition_for(key.coordinator_key, len(topic.partitions))

    def leader_of(self, key: ShareKey) -> int:
        """The broker that keeps a share partition's state; -1 when none does at the moment."""
        return self._broker.image.topics[SHARE_GROUP_STATE].partitions[self.index_of(key)].leader

    # -- requests -------------------------------------------------------------------------------------

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int, done: Done) -> None:
        self._write(key, lambda shard: shard.initialize(key, state_epoch, start_offset), done)

    def delete(self, key: ShareKey, done: Done) -> None:
        self._write(key, lambda shard: shard.delete(key), done)

    def read(
        self, key: ShareKey, leader_epoch: int, done: Callable[[StoredState | KafkaError], None]
    ) -> None:
        self._write(key, lambda shard: shard.read(key, leader_epoch), done)

    def summary(self, key: ShareKey, done: Callable[[StoredState | KafkaError], None]) -> None:
        try:
            index = self.index_of(key)
        except KafkaError as error:
            done(error)
            return
        self.runtime.read(index, lambda shard: shard.summary(key), _translated(done))

    def write(self, key: ShareKey, wanted: StateWrite, done: Done) -> None:
        """Store a change, together with others of this turn of the loop."""
        try:
            index = self.index_of(key)
        except KafkaError as error:
            done(error)
            return
        self.runtime.write_in_turn(index, lambda shard: shard.write(key, wanted), _translated(done))

    def _write(self, key: ShareKey, handle: Callable[..., object], done: Callable[..., None]) -> None:
        try:
            index = self.index_of(key)
        except KafkaError as error:
            done(error)
            return
        self.runtime.write(index, handle, _translated(done))  # type: ignore[arg-type]

    # -- what nobody asks for -------------------------------------------------------------------------

    def topics_deleted(self, topic_ids: set[Uuid]) -> None:
        for index, _ in self.runtime.shards():
            self.runtime.write(index, lambda shard: shard.forget_topics(topic_ids), _ignore)

    def _prune(self) -> None:
        """Cut off what lies before every partition's newest snapshot; the topic is never compacted (KIP-932)."""
        self.start()
        for index, shard in self.runtime.shards():
            partition = self._broker.replicas.find(SHARE_GROUP_STATE, index)
            if partition is None:
                continue
            end = partition.log.log_end_offset
            renew = partial(ShareStateShard.renew_old_snapshots, log_end=end, most=MOST_SNAPSHOTS_AT_ONCE)
            self.runtime.write(index, renew, _ignore)
            needed = min(shard.first_needed_offset(end), partition.log.high_watermark)
            if needed > partition.log.log_start_offset:
                partition.log.advance_log_start(needed)
                partition.log_start_moved()


def _ignore(outcome: object) -> None:
    if isinstance(outcome, KafkaError):
        logger.warning("the share coordinator will try again later: %s", outcome)


def _translated(done: Callable[..., None]) -> Callable[..., None]:
    def finished(outcome: object) -> None:
        if isinstance(outcome, KafkaError):
            outcome = KafkaError(coordinator_error(outcome.code), outcome.message)
        done(outcome)

    return finished


def coordinator_error(error: ErrorCode) -> ErrorCode:
    """What a leader is told when `__share_group_state` cannot be written, so that it tries the right thing next."""
    if error in (
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    ):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR):
        return ErrorCode.NOT_COORDINATOR
    return error
