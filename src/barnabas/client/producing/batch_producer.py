"""Produces batches that are already encoded: one of each partition at a time, to all leaders at once."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Protocol

from barnabas.client.cluster import Client
from barnabas.client.producing.batch_sender import ALL, Appended, Batches, BatchSender
from barnabas.client.producing.producer_ids import NO_PRODUCER_ID, ProducerIdAndEpoch
from barnabas.client.producing.transactional import Transactions
from barnabas.client.retry import RetryPolicy, retry
from barnabas.records.batch import NO_SEQUENCE, add_to_sequence
from barnabas.common.types import TopicPartition

Placed = dict[TopicPartition, list[Appended]]
"""By partition: where each of its batches is, in the order in which they were given."""


class Sealable(Protocol):
    """A batch that waits for its producer."""

    @property
    def place(self) -> TopicPartition: ...

    @property
    def count(self) -> int: ...

    def seal(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool
    ) -> bytearray: ...


class BatchProducer:
    """Sends under one producer id. After an exception it must not be used again: what arrived is not known."""

    def __init__(
        self,
        client: Client,
        identity: ProducerIdAndEpoch = NO_PRODUCER_ID,
        transactional_id: str | None = None,
        acks: int = ALL,
    ) -> None:
        self.client = client
        self.identity = identity
        self.transactional_id = transactional_id
        self._sender = BatchSender(client, acks, transactional_id)
        self._sequences: dict[TopicPartition, int] = {}

    async def send(self, batches: Iterable[Sealable]) -> Placed:
        """Where they are, when the leaders have acknowledged all of them."""
        placed: Placed = defaultdict(list)
        queues: dict[TopicPartition, deque[bytearray]] = defaultdict(deque)
        for batch in batches:
            queues[batch.place].append(self._seal(batch))
        while queues:
            appended = await self._deliver({place: queue.popleft() for place, queue in queues.items()})
            for place, where in appended.items():
                placed[place].append(where)
            queues = {place: queue for place, queue in queues.items() if queue}
        return placed

    def _seal(self, batch: Sealable) -> bytearray:
        identity = self.identity
        if not identity.is_idempotent:
            return batch.seal(identity.producer_id, identity.epoch, NO_SEQUENCE, transactional=False)
        sequence = self._sequences.get(batch.place, 0)
        self._sequences[batch.place] = add_to_sequence(sequence, batch.count)
        transactional = self.transactional_id is not None
        return batch.seal(identity.producer_id, identity.epoch, sequence, transactional=transactional)

    async def _deliver(self, batches: Batches) -> dict[TopicPartition, Appended]:
        appended: dict[TopicPartition, Appended] = {}

        async def attempt() -> None:
            nonlocal batches
            outcome = await self._sender.send(batches)
            appended.update(outcome.appended)
            batches = {place: batches[place] for place in outcome.errors}
            outcome.raise_first()

        async def recover(error: Exception) -> None:
            await self.client.refresh_quietly({place.topic for place in batches})

        await retry(attempt, RetryPolicy(self.client.total_timeout), recover)
        return appended


class TransactionalBatchProducer(BatchProducer):
    """Adds partitions to the transaction before the first batch goes to them."""

    def __init__(
        self, transactions: Transactions, identity: ProducerIdAndEpoch, transactional_id: str
    ) -> None:
        super().__init__(transactions.client, identity, transactional_id)
        self._transactions = transactions
        self._id = transactional_id
        self._joined: set[TopicPartition] = set()

    async def send(self, batches: Iterable[Sealable]) -> Placed:
        given = list(batches)
        if places := {batch.place for batch in given} - self._joined:
            await self._transactions.add_partitions(self._id, self.identity, places)
            self._joined |= places
        return await super().send(given)

    @property
    def is_open(self) -> bool:
        return bool(self._joined)

    async def end(self, *, committed: bool) -> None:
        """The next batch begins the next transaction."""
        if self._joined:
            await self._transactions.end(self._id, self.identity, committed=committed)
            self._joined.clear()
