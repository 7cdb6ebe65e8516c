"""Completion of decided transactions: decision, markers, completion, each durable before the next.

Work that a crash or a lost disk write interrupts is resumed when the partition of `__transaction_state` is
loaded, or
at the next sweep.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.cluster.image import MetadataImage
from barnabas.common.errors import KafkaError
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.coordination import Channel, CoordinatorRuntime, RuntimeEnvironment
from barnabas.protocol.internal_topics import TRANSACTION_STATE
from barnabas.replication import ReplicaManager
from barnabas.transactions.marker_rounds import MarkerRound
from barnabas.transactions.markers import Marker, MarkerWriter
from barnabas.transactions.shard import TransactionShard
from barnabas.transactions.transaction import Transaction, TransactionState

logger = rate_limited_logger(__name__)

# How long a request waits for the markers of the last transaction before it fails, as in Kafka
# (add.partitions.to.txn.retry.backoff.max.ms); clients retry only after 20 to 100 ms.
TIMEOUT_SECONDS = 0.1


class Completion:
    """`index_of` returns the partition of `__transaction_state` of a transactional id."""

    def __init__(
        self,
        environment: RuntimeEnvironment,
        runtime: CoordinatorRuntime[TransactionShard],
        index_of: Callable[[str], int],
        channel: Channel,
        writer: MarkerWriter,
        replicas: ReplicaManager,
        image: Callable[[], MetadataImage],
    ) -> None:
        self._clock = environment.clock
        self._timers = environment.timers
        self._replicas = replicas
        self._image = image
        self._runtime = runtime
        self._index_of = index_of
        self._channel = channel
        self._writer = writer
        self.shards: dict[int, TransactionShard] = {}
        self._rounds: dict[str, MarkerRound] = {}
        self._waiting: dict[str, list[Callable[[], None]]] = {}

    # -- shards -----------------------------------------------------------------------------------------

    def shard_loaded(self, shard: TransactionShard) -> None:
        self.shards[shard.index] = shard
        self.resume(shard)

    def shard_unloaded(self, shard: TransactionShard) -> None:
        self.shards.pop(shard.index, None)
        for transaction in shard.decided():
            self._rounds.pop(transaction.transactional_id, None)

    def resume(self, shard: TransactionShard) -> None:
        """Resume decided transactions without a marker round, once the decision is known to be durable."""
        for decided in shard.decided():
            if decided.transactional_id not in self._rounds:
                self._runtime.read(shard.index, lambda shard: shard.decided(), self._finish_all)
                return

    def _finish_all(self, result: list[Transaction] | KafkaError) -> None:
        if not isinstance(result, KafkaError):
            for decided in result:
                self.finish(decided)

    # -- one transaction ----------------------------------------------------------------------------------

    def finish(self, decided: Transaction) -> None:
        """Write the markers of a durably decided transaction, then its completion."""
        name = decided.transactional_id
        if name in self._rounds or not self._is_current(decided):
            return
        current = self._rounds[name] = MarkerRound(
            self._channel,
            self._writer,
            self._timers,
            self._image,
            self._marker(decided),
            decided.partitions,
            lambda: self._rounds.get(name) is current and self._is_current(decided),
            lambda: self._complete(current, decided),
        )
        current.run()

    def _marker(self, decided: Transaction) -> Marker:
        state_partition = self._replicas.find(TRANSACTION_STATE, self._index_of(decided.transactional_id))
        return Marker(
            decided.producer_id,
            decided.epoch,
            decided.state is TransactionState.PREPARE_COMMIT,
            state_partition.leader_epoch if state_partition is not None else -1,
            decided.version,
        )

    def _is_current(self, decided: Transaction) -> bool:
        shard = self.shards.get(self._index_of(decided.transactional_id))
        return shard is not None and shard.get(decided.transactional_id) == decided

    def _complete(self, finished: MarkerRound, decided: Transaction) -> None:
        """Write the completion: every partition has its marker.

        The next transaction may start once it is in the log.
        """
        name = decided.transactional_id
        if self._rounds.get(name) is not finished:
            return
        del self._rounds[name]
        now_ms = self._clock.now_ms()
        self._runtime.write(
            self._index_of(name),
            lambda shard: shard.complete(decided, now_ms),
            lambda result: _completed(name, result),
        )
        self._wake(name)

    # -- requests that wait for the previous transaction -------------------------------------------

    def when_complete(self, transactional_id: str, again: Callable[[], None]) -> None:
        """Call back when the current transaction of an id is complete, or after a short timeout."""
        waiting = self._waiting.setdefault(transactional_id, [])
        waiting.append(again)
        if len(waiting) == 1:
            self._timers.call_later(TIMEOUT_SECONDS, lambda: self._wake_if(transactional_id, waiting))

    def _wake_if(self, transactional_id: str, waiting: list[Callable[[], None]]) -> None:
        if self._waiting.get(transactional_id) is waiting:
            self._wake(transactional_id)

    def _wake(self, transactional_id: str) -> None:
        for again in self._waiting.pop(transactional_id, ()):
            again()


def _completed(name: str, result: Transaction | KafkaError | None) -> None:
    if isinstance(result, KafkaError):
        logger.warning("writing the completion of the transaction of %r failed; will retry: %s", name, result)
