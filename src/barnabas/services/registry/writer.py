"""Writes to `_schemas` in transactions: taking over the transactional id fences the previous writer.

A leader that has been replaced without knowing it cannot commit anything, so no id is assigned twice.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from barnabas.client import Client
from barnabas.client.producing import NO_PRODUCER_ID, BatchSender, RecordBatch, TransactionalProducer
from barnabas.common.types import TopicPartition
from barnabas.records import Record, build_batch
from barnabas.services.registry.records import NOOP, RegistryKey

TRANSACTIONAL_ID = "barnabas-schema-registry"
TIMEOUT_MS = 30_000  # until the coordinator aborts an open transaction of a dead leader


class SchemaWriter:
    def __init__(self, client: Client, tp: TopicPartition) -> None:
        self.client = client
        self.tp = tp
        self._plain_sender = BatchSender(client)
        self._producer: TransactionalProducer | None = None

    @property
    def is_ready(self) -> bool:
        return self._producer is not None

    @property
    def producer_id(self) -> int:
        """Producer id of the next write; it may change after a transaction."""
        return NO_PRODUCER_ID.producer_id if self._producer is None else self._producer.identity.producer_id

    async def begin(self) -> None:
        """Abort open transactions and fence the previous writer. Callers must then read to the end before deciding."""
        self._producer = await TransactionalProducer.take(self.client, TRANSACTIONAL_ID, TIMEOUT_MS)

    def give_up(self) -> None:
        self._producer = None

    async def write(self, entries: Sequence[tuple[bytes, bytes | None]]) -> int:
        """Commit records and return the offset after them. After an error the writer must begin again."""
        assert self._producer is not None, "begin first"
        try:
            return await self._write(self._producer, entries)
        except BaseException:
            self.give_up()
            raise

    async def mark_end(self) -> None:
        """Write a record outside of transactions: Karapace is ready once it has read the last offset, and never
        sees a transaction marker."""
        now = time.time_ns() // 1_000_000
        batch = build_batch([Record(0, now, RegistryKey(NOOP).encode(), None, ())])
        (await self._plain_sender.send({self.tp: batch})).raise_first()

    async def _write(
        self, producer: TransactionalProducer, entries: Sequence[tuple[bytes, bytes | None]]
    ) -> int:
        now = time.time_ns() // 1_000_000
        records = [Record(at, now, key, value, ()) for at, (key, value) in enumerate(entries)]
        placed = await producer.send([RecordBatch(self.tp, records)])
        await producer.commit()
        return placed[self.tp][0].base_offset + len(records)
