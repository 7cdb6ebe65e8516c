"""Writes to `_schemas`, each as a transaction: whoever takes the transactional id shuts out whoever had it before.

A leader that does not know yet that it was replaced cannot commit anything, so no id is given twice.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from barnabas.client.cluster import Client
from barnabas.client.producing.batch_sender import BatchSender
from barnabas.client.producing.producer_ids import NO_PRODUCER_ID, ProducerIdAndEpoch
from barnabas.client.producing.transactional import Transactions
from barnabas.records.builder import build_batch
from barnabas.records.record import Record
from barnabas.services.registry.records import NOOP, Key
from barnabas.common.types import TopicPartition

TRANSACTIONAL_ID = "barnabas-schema-registry"
TIMEOUT_MS = 30_000  # after which the coordinator aborts a transaction that a dead leader has left open


class SchemaWriter:
    def __init__(self, client: Client, place: TopicPartition) -> None:
        self.client = client
        self.place = place
        self._transactions = Transactions(client)
        self._sender = BatchSender(client, transactional_id=TRANSACTIONAL_ID)
        self._plain_sender = BatchSender(client)
        self._identity: ProducerIdAndEpoch = NO_PRODUCER_ID
        self._sequence = 0

    @property
    def is_ready(self) -> bool:
        return self._identity.is_idempotent

    async def begin(self) -> None:
        """Aborts what is open and fences the writer before; then read to the end, and only then decide anything."""
        self._identity = await self._transactions.initialize(TRANSACTIONAL_ID, TIMEOUT_MS)
        self._sequence = 0

    def give_up(self) -> None:
        self._identity = NO_PRODUCER_ID

    async def write(self, entries: Sequence[tuple[bytes, bytes | None]]) -> int:
        """The offset behind the records, which are committed. After an error the writer must begin again."""
        try:
            return await self._write(entries)
        except BaseException:
            self.give_up()
            raise

    async def mark_end(self) -> None:
        """A record outside transactions: Karapace counts as started once it has seen the last offset, and never sees
        the marker of a transaction."""
        now = time.time_ns() // 1_000_000
        batch = build_batch([Record(0, now, Key(NOOP).encode(), None, ())])
        (await self._plain_sender.send({self.place: batch})).raise_first()

    async def _write(self, entries: Sequence[tuple[bytes, bytes | None]]) -> int:
        now = time.time_ns() // 1_000_000
        records = [Record(at, now, key, value, ()) for at, (key, value) in enumerate(entries)]
        batch = build_batch(
            records,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            base_sequence=self._sequence,
            transactional=True,
        )
        await self._transactions.add_partitions(TRANSACTIONAL_ID, self._identity, [self.place])

        async def attempt() -> int:
            outcome = await self._sender.send({self.place: batch})
            outcome.raise_first()
            return outcome.appended[self.place].base_offset

        offset = await self.client.retry(attempt, [self.place.topic])
        await self._transactions.end(TRANSACTIONAL_ID, self._identity, committed=True)
        self._sequence += len(records)
        return offset + len(records)
