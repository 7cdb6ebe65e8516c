"""The transaction coordinator of a broker: `TransactionShard` on the coordinator runtime.

Everything with a clock or I/O happens here and in `completion`: timeouts abort transactions, unused ids
expire,
decided transactions get their markers, and early requests wait for them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from barnabas.cluster.features import TRANSACTION_VERSION
from barnabas.cluster.image import MetadataImage
from barnabas.common.clock import Clock, Timer
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.common.types import TopicPartition
from barnabas.config.broker import BrokerConfig
from barnabas.coordination import (
    Channel,
    CoordinatorResult,
    CoordinatorRuntime,
    Done,
    ProducerIdAndEpoch,
    RuntimeEnvironment,
    coordinator_error,
)
from barnabas.metrics import Registry, catalogue
from barnabas.protocol.internal_topics import TRANSACTION_STATE, partition_for
from barnabas.replication import ReplicaManager
from barnabas.transactions.bounds import (
    IDS,
    WITHOUT_TIMEOUT,
    WITHOUT_TIMEOUT_PER_PREFIX,
    TransactionLimits,
    check_room,
)
from barnabas.transactions.completion import Completion
from barnabas.transactions.markers import MarkerWriter
from barnabas.transactions.producer_ids import ProducerIds
from barnabas.transactions.shard import TransactionResult, TransactionShard
from barnabas.transactions.transaction import NO_TIMEOUT_MS, V1, V2, Transaction

T = TypeVar("T")
logger = rate_limited_logger(__name__)

MAX_EXPIRED_AT_ONCE = 1000  # tombstones in one batch


class TransactionCoordinator:
    def __init__(
        self,
        environment: RuntimeEnvironment,
        channel: Channel,
        writer: MarkerWriter,
        replicas: ReplicaManager,
        producer_ids: ProducerIds,
        *,
        config: Callable[[], BrokerConfig],
        image: Callable[[], MetadataImage],
    ) -> None:
        self._environment = environment
        self._clock = environment.clock
        self._producer_ids = producer_ids
        self._config = config
        self._image = image
        self.runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            TRANSACTION_STATE,
            lambda index: TransactionShard(index, self._completion, limit=lambda: self._room_for_ids(index)),
            environment,
            config()["request.timeout.ms"],
        )
        self._completion = Completion(
            environment, self.runtime, self.partition_of, channel, writer, replicas, image
        )
        self._sweepers: dict[Callable[[], None], Timer] = {}
        self.refused = 0  # requests rejected because of a limit (`transactions/bounds`)

    def start(self) -> None:
        self._sweep_open()
        self._sweep_unused()

    def stop(self) -> None:
        for timer in self._sweepers.values():
            timer.cancel()
        self.runtime.stop()

    # -- partition of a transactional id -----------------------------------------------------------

    def partition_of(self, transactional_id: str) -> int:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        topic = self._image().topics.get(TRANSACTION_STATE)
        if topic is None:
            raise KafkaError(
                ErrorCode.NOT_COORDINATOR, "`__transaction_state` does not exist yet; send FindCoordinator"
            )
        return partition_for(transactional_id, len(topic.partitions))

    def leader_of(self, transactional_id: str) -> int:
        """The broker that coordinates an id; -1 if the partition has no leader."""
        index = self.partition_of(transactional_id)
        return self._image().topics[TRANSACTION_STATE].partitions[index].leader

    @property
    def version(self) -> int:
        """The transaction version of the cluster, used for aborts by the coordinator."""
        return V2 if self._image().features.get(TRANSACTION_VERSION, 0) >= V2 else V1

    # -- requests -------------------------------------------------------------------------------------

    def initialize(
        self,
        transactional_id: str,
        expected: ProducerIdAndEpoch | None,
        timeout_ms: int,
        done: Done[TransactionResult],
    ) -> None:
        self._write(
            transactional_id,
            lambda shard: self._bounded(
                shard,
                shard.initialize(
                    transactional_id, expected, timeout_ms, self.version, self._now(), self._new_producer_id
                ),
            ),
            done,
        )

    def add_partitions(
        self,
        transactional_id: str,
        instance: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        version: int,
        done: Done[TransactionResult],
        *,
        patient: bool = True,
    ) -> None:
        """If the last transaction is not yet complete, wait briefly, which usually saves a retry."""

        def handled(result: TransactionResult | KafkaError) -> None:
            if (
                patient
                and isinstance(result, KafkaError)
                and result.code == ErrorCode.CONCURRENT_TRANSACTIONS
            ):
                self._completion.when_complete(transactional_id, again)
            else:
                done(result)

        def again() -> None:
            self.add_partitions(transactional_id, instance, partitions, version, done, patient=False)

        self._write(
            transactional_id,
            lambda shard: self._bounded(
                shard,
                shard.add_partitions(transactional_id, instance, partitions, version, self._now()),
            ),
            handled,
        )

    def verify(
        self,
        transactional_id: str,
        instance: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        done: Done[dict[TopicPartition, ErrorCode]],
    ) -> None:
        self._read(transactional_id, lambda shard: shard.verify(transactional_id, instance, partitions), done)

    def end(
        self,
        transactional_id: str,
        instance: ProducerIdAndEpoch,
        *,
        committed: bool,
        version: int,
        done: Done[TransactionResult],
    ) -> None:
        self._write(
            transactional_id,
            lambda shard: shard.end(
                transactional_id,
                instance,
                committed=committed,
                version=version,
                now_ms=self._now(),
                new_producer_id=self._new_producer_id,
            ),
            done,
        )

    def describe(self, transactional_id: str, done: Done[Transaction | None]) -> None:
        self._read(transactional_id, lambda shard: shard.get(transactional_id), done)

    # -- limits ------------------------------------------------------------------------------------

    @property
    def shards(self) -> Collection[TransactionShard]:
        return self._completion.shards.values()

    def _room_for_ids(self, index: int) -> int:
        """The id limit of a shard: the room that other shards leave, but at least an equal share.

        A client can choose ids that all hash to one shard.
        """
        others = sum(len(shard) for shard in self.shards if shard.index != index)
        limit = self._bounds.ids
        return max(limit - others, limit // (len(self.shards) or 1), 1)

    @property
    def _bounds(self) -> TransactionLimits:
        config = self._config()
        return TransactionLimits(config[IDS], config[WITHOUT_TIMEOUT], config[WITHOUT_TIMEOUT_PER_PREFIX])

    def _bounded(
        self, shard: TransactionShard, result: CoordinatorResult[TransactionResult]
    ) -> CoordinatorResult[TransactionResult]:
        """Raise if the request opens one transaction without a timeout too many. Ending one never raises."""
        after = result.response.transaction
        if after.timeout_ms == NO_TIMEOUT_MS and not after.is_decided:
            known = shard.get(after.transactional_id)
            if known is None or not known.is_ongoing:
                check_room(self.shards, after.transactional_id, self._bounds)
        return result

    def _now(self) -> int:
        return self._clock.now_ms()

    def _new_producer_id(self) -> int:
        producer_id = self._producer_ids.take()
        if producer_id is None:  # InitProducerId has refilled the block; EndTxn rarely needs an id
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "waiting for a block of producer ids")
        return producer_id

    def _read(
        self,
        transactional_id: str,
        handle: Callable[[TransactionShard], T],
        done: Done[T],
    ) -> None:
        try:
            index = self.partition_of(transactional_id)
        except KafkaError as error:
            done(error)
            return
        self.runtime.when_loaded(index, lambda: self.runtime.read(index, handle, done))

    def _write(
        self,
        transactional_id: str,
        handle: Callable[[TransactionShard], CoordinatorResult[TransactionResult]],
        done: Done[TransactionResult],
    ) -> None:
        try:
            index = self.partition_of(transactional_id)
        except KafkaError as error:
            done(error)
            return
        self.runtime.when_loaded(
            index,
            lambda: self.runtime.write(index, handle, lambda result: self._written(result, done)),
        )

    def _written(self, result: TransactionResult | KafkaError, done: Done[TransactionResult]) -> None:
        if isinstance(result, KafkaError):
            self._log_rejected(result)
            # Too large: more partitions than a record can hold.
            code = coordinator_error(result.code, too_large=ErrorCode.INVALID_REQUEST)
            done(KafkaError(code, result.message))
            return
        done(result)
        if result.transaction.is_decided:
            self._completion.finish(result.transaction)

    def _log_rejected(self, error: KafkaError) -> None:
        """Log the error: InitProducerId and AddPartitionsToTxn responses have no error message."""
        if error.code == ErrorCode.POLICY_VIOLATION:
            self.refused += 1
            logger.warning("rejected a transactional producer: %s", error.message)

    # -- periodic sweeps ---------------------------------------------------------------------------

    def _sweep_open(self) -> None:
        """Abort transactions that have timed out, and resume decided ones."""
        self._again(self._sweep_open, "transaction.abort.timed.out.transaction.cleanup.interval.ms")
        for shard in list(self.shards):
            self._completion.resume(shard)
            for late in shard.timed_out(self._clock.expiry_ms()):
                self._abort(shard.index, late.transactional_id)

    def _abort(self, index: int, transactional_id: str) -> None:
        def written(result: Transaction | KafkaError | None) -> None:
            if isinstance(result, Transaction):
                logger.info("aborted the transaction of %r: timeout", transactional_id)
                self._completion.finish(result)

        self.runtime.write(
            index, lambda shard: shard.abort_timed_out(transactional_id, self.version, self._now()), written
        )

    def _sweep_unused(self) -> None:
        """Remove transactional ids unused for `transactional.id.expiration.ms`."""
        self._again(self._sweep_unused, "transaction.remove.expired.transaction.cleanup.interval.ms")
        oldest = self._clock.expiry_ms() - self._config()["transactional.id.expiration.ms"]
        for shard in list(self.shards):
            self._expire(shard.index, oldest)

    def _expire(self, index: int, oldest: int) -> None:
        def written(result: int | KafkaError) -> None:
            if result == MAX_EXPIRED_AT_ONCE:
                self._environment.call_soon(lambda: self._expire(index, oldest))

        self.runtime.write(index, lambda shard: shard.expire(oldest, MAX_EXPIRED_AT_ONCE), written)

    def _again(self, sweep: Callable[[], None], setting: str) -> None:
        seconds = self._config()[setting] / 1000
        self._sweepers[sweep] = self._environment.timers.call_later(seconds, sweep)


def declare_transaction_metrics(
    registry: Registry, clock: Clock, coordinator: TransactionCoordinator
) -> None:
    registry.read_by(catalogue.TRANSACTIONAL_IDS, lambda: sum(map(len, coordinator.shards)))
    registry.read_by(
        catalogue.TRANSACTIONS_WITHOUT_TIMEOUT,
        lambda: sum(len(shard.without_timeout) for shard in coordinator.shards),
    )
    registry.read_by(catalogue.OLDEST_WITHOUT_TIMEOUT, lambda: _oldest_seconds(clock, coordinator.shards))
    registry.read_by(catalogue.TRANSACTIONS_REFUSED, lambda: coordinator.refused)


def _oldest_seconds(clock: Clock, shards: Collection[TransactionShard]) -> float:
    started = [transaction.started_ms for shard in shards for transaction in shard.without_timeout]
    return max(clock.now_ms() - min(started), 0) / 1000 if started else 0.0
