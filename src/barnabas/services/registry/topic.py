"""The topic `_schemas`: created if missing, rejected if it could lose schemas, and written in transactions."""

from __future__ import annotations

import time
from collections.abc import Sequence

from barnabas.client import Client, admin
from barnabas.client.producing import NO_PRODUCER_ID, BatchSender, RecordBatch, TransactionalProducer
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.config.setting import ConfigError
from barnabas.records import Record, build_batch
from barnabas.services.registry.records import NOOP, RegistryKey

# -- Writer: taking over the transactional id fences the previous leader, so no schema id is assigned twice --

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


TOPIC = "_schemas"
REPLICAS = 3  # fewer with fewer brokers
TOPIC_PARTITION = TopicPartition(TOPIC, 0)


class UnsuitableTopicError(ConfigError):
    """The topic could lose schemas; the message says how to repair it."""


async def ensure_topic(client: Client, topic: str = TOPIC) -> None:
    await _create(client, topic)
    partitions = await client.partitions([topic])
    if len(partitions) != 1:
        raise UnsuitableTopicError(
            f"topic {topic} has {len(partitions)} partitions, but schemas need the order of a single one: copy it to a "
            "topic with one partition, or use another topic (--topic)"
        )
    policy = (await admin.setting_of_topics(client, [topic], "cleanup.policy"))[topic]
    if policy != "compact":
        raise UnsuitableTopicError(
            f"topic {topic} has cleanup.policy={policy}: schemas and their ids would be deleted with old segments. "
            f"Run: barnabas configs set topic {topic} cleanup.policy=compact"
        )


async def _create(client: Client, topic: str) -> None:
    known = (await client.refresh([topic])).topics.get(topic)
    if known is not None and not known.error:
        return
    # Processes of one node are several brokers, but only one place for a replica.
    for factor in range(min(REPLICAS, len(client.metadata.brokers)), 0, -1):
        try:
            await admin.create_topic(
                client,
                topic,
                partitions=1,
                replication_factor=factor,
                configs={"cleanup.policy": "compact"},
            )
        except KafkaError as error:
            if error.code == ErrorCode.INVALID_REPLICATION_FACTOR and factor > 1:
                continue
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        return
