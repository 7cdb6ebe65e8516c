"""Produces encoded batches: one per partition in flight, to all leaders concurrently."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, Self

from barnabas.client.cluster import Client
from barnabas.client.errors import may_arrive_late
from barnabas.client.producing.batch_sender import ALL, Batches, BatchPosition, BatchSender
from barnabas.client.producing.producer_ids import NO_PRODUCER_ID, ProducerIdentity
from barnabas.client.producing.transactional import TransactionRequests
from barnabas.client.retry import RetryPolicy, retry
from barnabas.common.types import TopicPartition
from barnabas.records import Record, build_batch
from barnabas.records.batch import NO_SEQUENCE, add_to_sequence

Placed = dict[TopicPartition, list[BatchPosition]]
"""Positions of the appended batches by partition, in the order given."""


class UnsealedBatch(Protocol):
    """Batch without a producer id yet."""

    @property
    def tp(self) -> TopicPartition: ...

    @property
    def count(self) -> int: ...

    def seal(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool
    ) -> bytearray: ...


class RecordBatch:
    """Small batch without a producer id yet."""

    __slots__ = ("_records", "tp")

    def __init__(self, tp: TopicPartition, records: Sequence[Record]) -> None:
        self.tp = tp
        self._records = records

    @property
    def count(self) -> int:
        return len(self._records)

    def seal(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool
    ) -> bytearray:
        return build_batch(
            self._records,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
        )


class BatchProducer:
    """Sends under one producer id. After an exception it must not be used again: what arrived is not known."""

    def __init__(
        self,
        client: Client,
        identity: ProducerIdentity = NO_PRODUCER_ID,
        transactional_id: str | None = None,
        acks: int = ALL,
    ) -> None:
        self.client = client
        self.identity = identity
        self.transactional_id = transactional_id
        self._sender = BatchSender(client, acks, transactional_id)
        self._sequences: dict[TopicPartition, int] = {}

    async def send(self, batches: Iterable[UnsealedBatch]) -> Placed:
        """Send batches; returns their offsets once all are acknowledged."""
        placed: Placed = defaultdict(list)
        queues: dict[TopicPartition, deque[bytearray]] = defaultdict(deque)
        for batch in batches:
            queues[batch.tp].append(self._seal(batch))
        while queues:
            appended = await self._deliver({tp: queue.popleft() for tp, queue in queues.items()})
            for tp, where in appended.items():
                placed[tp].append(where)
            queues = {tp: queue for tp, queue in queues.items() if queue}
        return placed

    def _seal(self, batch: UnsealedBatch) -> bytearray:
        identity = self.identity
        if not identity.is_idempotent:
            return batch.seal(identity.producer_id, identity.epoch, NO_SEQUENCE, transactional=False)
        sequence = self._sequences.get(batch.tp, 0)
        self._sequences[batch.tp] = add_to_sequence(sequence, batch.count)
        transactional = self.transactional_id is not None
        return batch.seal(identity.producer_id, identity.epoch, sequence, transactional=transactional)

    async def _deliver(self, batches: Batches) -> dict[TopicPartition, BatchPosition]:
        appended: dict[TopicPartition, BatchPosition] = {}

        async def attempt() -> None:
            nonlocal batches
            outcome = await self._sender.send(batches)
            appended.update(outcome.appended)
            if any(map(may_arrive_late, outcome.errors.values())):
                self._not_answered()
            batches = {tp: batches[tp] for tp in outcome.errors}
            outcome.raise_first()

        async def recover(error: Exception) -> None:
            await self.client.refresh_quietly({tp.topic for tp in batches})

        await retry(attempt, RetryPolicy(self.client.total_timeout), recover)
        return appended

    def _not_answered(self) -> None:
        """Called when a request is resent and its first copy may still arrive; sequence numbers deduplicate it."""


class TransactionalBatchProducer(BatchProducer):
    """Writes in a transaction V1 that another process ends. Partitions join it before the first batch goes to them.

    `renew` initializes the id again: a request without an answer may arrive after the other process has ended the
    transaction, and open another one under the same epoch.
    """

    def __init__(
        self,
        transactions: TransactionRequests,
        identity: ProducerIdentity,
        transactional_id: str,
        renew: Callable[[], Awaitable[ProducerIdentity]] | None = None,
    ) -> None:
        super().__init__(transactions.client, identity, transactional_id)
        self._transactions = transactions
        self._id = transactional_id
        self._renew = renew
        self._joined: set[TopicPartition] = set()

    async def send(self, batches: Iterable[UnsealedBatch]) -> Placed:
        value = list(batches)
        if partitions := {batch.tp for batch in value} - self._joined:
            await self._join(partitions)
            self._joined |= partitions
        return await super().send(value)

    async def _join(self, partitions: set[TopicPartition]) -> None:
        await self._transactions.add_partitions(self._id, self.identity, partitions)
        if self._renew is None or self._joined:
            return
        while self._transactions.is_unaccounted(self._id):
            self._use(await self._renew())
            await self._transactions.add_partitions(self._id, self.identity, partitions)

    def _use(self, identity: ProducerIdentity) -> None:
        if identity != self.identity:
            self.identity = identity
            self._sequences.clear()

    def _not_answered(self) -> None:
        self._transactions.note_unanswered(self._id)


class TransactionalProducer(TransactionalBatchProducer):
    """Begins and commits its own transactions, one after the other: V2 where the cluster has it, else V1.

    No request of one transaction can touch the next: V2 raises the epoch with each commit, and with V1 the epoch is
    raised before the next transaction if a request got no answer. After an exception the id must be taken again.
    """

    def __init__(
        self,
        transactions: TransactionRequests,
        identity: ProducerIdentity,
        transactional_id: str,
        *,
        timeout_ms: int,
        is_v2: bool,
    ) -> None:
        super().__init__(transactions, identity, transactional_id)
        self._timeout_ms = timeout_ms
        self._is_v2 = self._sender.transactions_v2 = is_v2

    @classmethod
    async def take(cls, client: Client, transactional_id: str, timeout_ms: int) -> Self:
        """Initialize the id: aborts its open transaction and fences the previous producer."""
        transactions = TransactionRequests(client)
        identity, is_v2 = await transactions.initialize_own(transactional_id, timeout_ms)
        return cls(transactions, identity, transactional_id, timeout_ms=timeout_ms, is_v2=is_v2)

    async def commit(self) -> None:
        """The next batch begins the next transaction."""
        if self._joined:
            end = self._transactions.end
            self._use(await end(self._id, self.identity, committed=True, is_v2=self._is_v2))
            self._joined.clear()

    async def _join(self, partitions: set[TopicPartition]) -> None:
        if self._is_v2:
            return  # the first batch adds its partition
        if not self._joined and self._transactions.is_unaccounted(self._id):
            raise_epoch = self._transactions.raise_epoch
            self._use(await raise_epoch(self._id, self._timeout_ms, self.identity))
        await super()._join(partitions)
