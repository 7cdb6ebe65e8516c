"""The transaction coordinator of a broker: the state machine of `barnabas.transactions` on the coordinators' runtime.

What the pure part cannot do happens here: markers are written when a transaction is decided, timeouts abort, silent
ids expire, and whoever comes a little too early waits.

A decided transaction (Prepare*) is finished in this order, each step safe before the next: the decision, the
markers, the completion. Whatever a crash or a lost disk write interrupts is taken up again, when the partition is
loaded or at the next sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, TypeVar

from barnabas.clock import Timer
from barnabas.cluster.names import TRANSACTION_STATE
from barnabas.coordination.keys import partition_for
from barnabas.coordination.runtime import Coordinator
from barnabas.errors import ErrorCode, KafkaError
from barnabas.log_lines import limited_logger
from barnabas.server.transaction_markers import Marker, MarkerRound
from barnabas.transactions.bounds import (
    IDS,
    WITHOUT_TIMEOUT,
    WITHOUT_TIMEOUT_PER_PREFIX,
    Bounds,
    check_room,
)
from barnabas.transactions.instances import Instance
from barnabas.transactions.shard import Outcome, Records, TransactionShard
from barnabas.transactions.states import TransactionState
from barnabas.transactions.transaction import NO_TIMEOUT_MS, V1, V2, Transaction
from barnabas.types import TopicPartition

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

T = TypeVar("T")
logger = limited_logger(__name__)

FEATURE = "transaction.version"
MOST_EXPIRED_AT_ONCE = 1000  # tombstones in one batch
# How long a request may wait for the markers of the last transaction before it is sent away, as in Kafka
# (add.partitions.to.txn.retry.backoff.max.ms); clients come back only after 20 to 100 ms.
PATIENCE_SECONDS = 0.1

Done = Callable[[Outcome | KafkaError], None]


class TransactionCoordinator:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.runtime: Coordinator[TransactionShard] = Coordinator(
            TRANSACTION_STATE,
            lambda index: TransactionShard(index, self, limit=lambda: self._room_for_ids(index)),
            broker,
            broker.config["request.timeout.ms"],
        )
        self._shards: dict[int, TransactionShard] = {}
        self._rounds: dict[str, MarkerRound] = {}
        self._patient: dict[str, list[Callable[[], None]]] = {}
        self._sweepers: dict[Callable[[], None], Timer] = {}
        self.refused = 0  # requests, because of a bound (`transactions/bounds`)
        self.refused_sequences: dict[tuple[TopicPartition, Instance], int] = {}
        """The first sequence of batches for partitions of ours that were not admitted yet."""

    def start(self) -> None:
        self._sweep_open()
        self._sweep_silent()

    def stop(self) -> None:
        for timer in self._sweepers.values():
            timer.cancel()
        self.runtime.stop()

    # -- where a transactional id lives ---------------------------------------------------------------

    def partition_of(self, transactional_id: str) -> int:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        topic = self._broker.image.topics.get(TRANSACTION_STATE)
        if topic is None:
            raise KafkaError(
                ErrorCode.NOT_COORDINATOR, "nobody coordinates transactions yet: ask FindCoordinator"
            )
        return partition_for(transactional_id, len(topic.partitions))

    def leader_of(self, transactional_id: str) -> int:
        """The broker that coordinates an id; -1 when none does at the moment."""
        index = self.partition_of(transactional_id)
        return self._broker.image.topics[TRANSACTION_STATE].partitions[index].leader

    @property
    def version(self) -> int:
        """The transactions that the cluster speaks: how it writes the aborts of its own."""
        return V2 if self._broker.image.features.get(FEATURE, 0) >= V2 else V1

    # -- requests -------------------------------------------------------------------------------------

    def initialize(
        self, transactional_id: str, expected: Instance | None, timeout_ms: int, done: Done
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
        instance: Instance,
        partitions: Collection[TopicPartition],
        version: int,
        done: Done,
        *,
        patient: bool = True,
    ) -> None:
        """If the last transaction is not yet complete, wait a little; most often that saves a retry."""

        def handled(result: Outcome | KafkaError) -> None:
            if (
                patient
                and isinstance(result, KafkaError)
                and result.code == ErrorCode.CONCURRENT_TRANSACTIONS
            ):
                self._when_complete(transactional_id, again)
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
        instance: Instance,
        partitions: Collection[TopicPartition],
        done: Callable[[dict[TopicPartition, ErrorCode] | KafkaError], None],
    ) -> None:
        self._read(transactional_id, lambda shard: shard.verify(transactional_id, instance, partitions), done)

    def end(
        self, transactional_id: str, instance: Instance, *, committed: bool, version: int, done: Done
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

    def describe(
        self, transactional_id: str, done: Callable[[Transaction | KafkaError | None], None]
    ) -> None:
        self._read(transactional_id, lambda shard: shard.get(transactional_id), done)

    # -- bounds ---------------------------------------------------------------------------------------

    @property
    def shards(self) -> Collection[TransactionShard]:
        return self._shards.values()

    def _room_for_ids(self, index: int) -> int:
        """How many ids a shard may have: what the others leave, but always its share. Ids can be aimed at a shard."""
        others = sum(len(shard) for shard in self._shards.values() if shard.index != index)
        most = self._bounds.ids
        return max(most - others, most // (len(self._shards) or 1), 1)

    @property
    def _bounds(self) -> Bounds:
        config = self._broker.config
        return Bounds(config[IDS], config[WITHOUT_TIMEOUT], config[WITHOUT_TIMEOUT_PER_PREFIX])

    def _bounded(self, shard: TransactionShard, step: tuple[Records, Outcome]) -> tuple[Records, Outcome]:
        """Refuse a step to a transaction without a timeout when there are too many. Ending one is never refused."""
        after = step[1].transaction
        if after.timeout_ms == NO_TIMEOUT_MS and not after.is_decided:
            known = shard.get(after.transactional_id)
            if known is None or not known.is_ongoing:
                check_room(self.shards, after.transactional_id, self._bounds)
        return step

    def _now(self) -> int:
        return self._broker.clock.now_ms()

    def _new_producer_id(self) -> int:
        producer_id = self._broker.producer_ids.take()
        if (
            producer_id is None
        ):  # InitProducerId has made sure that there is one; EndTxn needs one very rarely
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "waiting for a block of producer ids")
        return producer_id

    def _read(
        self,
        transactional_id: str,
        handle: Callable[[TransactionShard], T],
        done: Callable[[T | KafkaError], None],
    ) -> None:
        try:
            index = self.partition_of(transactional_id)
        except KafkaError as error:
            done(error)
            return
        self.runtime.read(index, handle, done)

    def _write(
        self,
        transactional_id: str,
        handle: Callable[[TransactionShard], tuple[Records, Outcome]],
        done: Done,
    ) -> None:
        try:
            index = self.partition_of(transactional_id)
        except KafkaError as error:
            done(error)
            return
        self.runtime.write(index, handle, lambda result: self._written(result, done))

    def _written(self, result: Outcome | KafkaError, done: Done) -> None:
        if isinstance(result, KafkaError):
            self._tell_refused(result)
            done(KafkaError(_for_client(result.code), result.message))
            return
        done(result)
        if result.transaction.is_decided:
            self._finish(result.transaction)

    def _tell_refused(self, error: KafkaError) -> None:
        """The answers of InitProducerId and AddPartitionsToTxn have no room for words: they stand in our log."""
        if error.code == ErrorCode.POLICY_VIOLATION:
            self.refused += 1
            logger.warning("a transactional producer was refused: %s", error.message)

    # -- finishing what is decided --------------------------------------------------------------------

    def shard_loaded(self, shard: TransactionShard) -> None:
        self._shards[shard.index] = shard
        self._resume(shard)

    def shard_unloaded(self, shard: TransactionShard) -> None:
        self._shards.pop(shard.index, None)
        for transaction in shard.decided():
            self._rounds.pop(transaction.transactional_id, None)

    def _resume(self, shard: TransactionShard) -> None:
        """Take up decided transactions that nobody works on, once the decision is known to be safe."""
        for decided in shard.decided():
            if decided.transactional_id not in self._rounds:
                self.runtime.read(shard.index, lambda shard: shard.decided(), self._finish_all)
                return

    def _finish_all(self, result: list[Transaction] | KafkaError) -> None:
        if not isinstance(result, KafkaError):
            for decided in result:
                self._finish(decided)

    def _finish(self, decided: Transaction) -> None:
        name = decided.transactional_id
        if name in self._rounds or not self._is_current(decided):
            return
        index = self.partition_of(name)
        state_partition = self._broker.replicas.find(TRANSACTION_STATE, index)
        marker = Marker(
            decided.producer_id,
            decided.epoch,
            decided.state is TransactionState.PREPARE_COMMIT,
            state_partition.leader_epoch if state_partition is not None else -1,
            decided.version,
        )
        current = self._rounds[name] = MarkerRound(
            self._broker,
            marker,
            decided.partitions,
            lambda: self._rounds.get(name) is current and self._is_current(decided),
            lambda: self._complete(current, decided),
        )
        current.run()

    def _is_current(self, decided: Transaction) -> bool:
        shard = self._shards.get(self.partition_of(decided.transactional_id))
        return shard is not None and shard.get(decided.transactional_id) == decided

    def _complete(self, finished: MarkerRound, decided: Transaction) -> None:
        """Every partition has its marker. The next transaction may start as soon as that is in the log."""
        name = decided.transactional_id
        if self._rounds.get(name) is not finished:
            return
        del self._rounds[name]
        self.runtime.write(
            self.partition_of(name),
            lambda shard: shard.complete(decided, self._now()),
            lambda result: self._completed(name, result),
        )
        self._wake(name)

    def _completed(self, name: str, result: Transaction | KafkaError | None) -> None:
        if isinstance(result, KafkaError):
            logger.warning(
                "the completion of the transaction of %r could not be written yet: %s", name, result
            )

    # -- those who came too early -----------------------------------------------------------------------

    def _when_complete(self, transactional_id: str, again: Callable[[], None]) -> None:
        waiting = self._patient.setdefault(transactional_id, [])
        waiting.append(again)
        if len(waiting) == 1:
            self._broker.timers.call_later(PATIENCE_SECONDS, lambda: self._wake_if(transactional_id, waiting))

    def _wake_if(self, transactional_id: str, waiting: list[Callable[[], None]]) -> None:
        if self._patient.get(transactional_id) is waiting:
            self._wake(transactional_id)

    def _wake(self, transactional_id: str) -> None:
        for again in self._patient.pop(transactional_id, ()):
            again()

    # -- by the clock -----------------------------------------------------------------------------------

    def _sweep_open(self) -> None:
        """Abort what has been open for too long, and take up what was left half done."""
        self._again(self._sweep_open, "transaction.abort.timed.out.transaction.cleanup.interval.ms")
        for shard in list(self._shards.values()):
            self._resume(shard)
            for late in shard.timed_out(self._now()):
                self._abort(shard.index, late.transactional_id)

    def _abort(self, index: int, transactional_id: str) -> None:
        def written(result: Transaction | KafkaError | None) -> None:
            if isinstance(result, Transaction):
                logger.info("aborted the transaction of %r, which has timed out", transactional_id)
                self._finish(result)

        self.runtime.write(
            index, lambda shard: shard.abort_timed_out(transactional_id, self.version, self._now()), written
        )

    def _sweep_silent(self) -> None:
        """Forget transactional ids that nobody has used for long."""
        self._again(self._sweep_silent, "transaction.remove.expired.transaction.cleanup.interval.ms")
        oldest = self._now() - self._broker.config["transactional.id.expiration.ms"]
        for shard in list(self._shards.values()):
            self._expire(shard.index, oldest)

    def _expire(self, index: int, oldest: int) -> None:
        def written(result: int | KafkaError) -> None:
            if result == MOST_EXPIRED_AT_ONCE:
                self._broker.call_soon(lambda: self._expire(index, oldest))

        self.runtime.write(index, lambda shard: shard.expire(oldest, MOST_EXPIRED_AT_ONCE), written)

    def _again(self, sweep: Callable[[], None], setting: str) -> None:
        seconds = self._broker.config[setting] / 1000
        self._sweepers[sweep] = self._broker.timers.call_later(seconds, sweep)


def _for_client(error: ErrorCode) -> ErrorCode:
    """What a client is told when `__transaction_state` cannot be written, so that it tries the right thing next."""
    if error in (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    ):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR):
        return ErrorCode.NOT_COORDINATOR
    if error in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
        return ErrorCode.INVALID_REQUEST  # more partitions than a record can name
    return error
