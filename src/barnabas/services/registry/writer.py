"""Writes to `_schemas`, each as a transaction: whoever takes the transactional id shuts out whoever had it before.

A leader that does not know yet that it was replaced cannot commit anything, so no id is given twice.
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
TIMEOUT_MS = 30_000  # after which the coordinator aborts a transaction that a dead leader has left open


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
        """That of the next write: a transaction may leave another one behind."""
        return NO_PRODUCER_ID.producer_id if self._producer is None else self._producer.identity.producer_id

    async def begin(self) -> None:
        """Aborts what is open and fences the writer before; then read to the end, and only then decide anything."""
        self._producer = await TransactionalProducer.take(self.client, TRANSACTIONAL_ID, TIMEOUT_MS)

    def give_up(self) -> None:
        self._producer = None

    async def write(self, entries: Sequence[tuple[bytes, bytes | None]]) -> int:
        """The offset behind the records, which are committed. After an error the writer must begin again."""
        assert self._producer is not None, "begin first"
        try:
            return await self._write(self._producer, entries)
        except BaseException:
            self.give_up()
            raise

    async def mark_end(self) -> None:
        """A record outside transactions: Karapace counts as started once it has seen the last offset, and never sees
        the marker of a transaction."""
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
