"""Arrow batches from Spark -> encoded blocks: collected until they are worth a request, split by topic."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from barnabas.client import Client, TopicMetadata
from barnabas.client.admin import TOPIC, describe_configs
from barnabas.client.retry import RetryPolicy, retry
from barnabas.common.errors import KafkaError
from barnabas.records import Block
from barnabas.records.columnar.encode import BadRowError, BlockEncoder, EncodeTarget
from barnabas.spark.sink.formats import ColumnEncoders
from barnabas.spark.sink.protocol import SinkError
from barnabas.spark.sink.settings import MAX_REQUEST, SinkSettings

COLLECTED_BYTES = 4 * 1024 * 1024
"""Rows encoded together: enough to give each of many partitions a batch of reasonable size."""


DEFAULT_LIMIT = 1_048_588  # Kafka's message.max.bytes
LIMIT_SECONDS = 60.0
_limits: dict[tuple[int, int, str], tuple[int, float]] = {}


class RowEncoder:
    """Reads and encodes in a thread while the loop sends earlier blocks: the kernels release the GIL."""

    def __init__(self, client: Client, settings: SinkSettings, rows: Iterator[pa.RecordBatch]) -> None:
        self._client = client
        self._settings = settings
        self._rows = rows
        self._encoder = BlockEncoder(settings.codec)
        self._formats = ColumnEncoders(settings.framed)
        self._targets: dict[str, EncodeTarget] = {}

    async def next_blocks(self) -> list[Block] | None:
        """The next rows as batches; None when there are no more."""
        table = await asyncio.to_thread(self._collect)
        if table is None:
            return None
        blocks: list[Block] = []
        for topic, rows in self._by_topic(table):
            target = await self._target(topic)
            blocks += await asyncio.to_thread(lambda: list(self._encoder.encode(rows, target)))  # noqa: B023
        return blocks

    def _collect(self) -> pa.RecordBatch | None:
        found: list[pa.RecordBatch] = []
        size = 0
        for batch in self._rows:
            if batch.num_rows:
                found.append(batch.select(list(self._settings.columns)))
                size += found[-1].nbytes
            if size >= COLLECTED_BYTES:
                break
        if not found:
            return None
        rows = found[0] if len(found) == 1 else pa.Table.from_batches(found).combine_chunks().to_batches()[0]
        return self._formats.encoded(rows)

    def _by_topic(self, rows: pa.RecordBatch) -> list[tuple[str, pa.RecordBatch]]:
        if self._settings.topic is not None:
            return [(self._settings.topic, rows)]
        topics = rows.column(rows.schema.get_field_index("topic"))
        if topics.null_count:
            raise BadRowError(
                "a row has no topic: its column 'topic' is null, and the option 'topic' is not set"
            )
        names = [name.as_py() for name in pc.unique(topics)]
        if len(names) == 1:
            return [(names[0], rows)]
        return [(name, rows.filter(pc.equal(topics, name))) for name in names]

    async def _target(self, topic: str) -> EncodeTarget:
        if topic not in self._targets:
            found = await retry(lambda: self._find(topic), RetryPolicy(self._client.total_timeout))
            limit = await _largest_batch(self._client, topic)
            self._targets[topic] = _target_of(found, limit, self._settings.largest_request)
        return self._targets[topic]

    async def _find(self, topic: str) -> TopicMetadata:
        try:
            return (await self._client.topics([topic], create=True))[topic]
        except KafkaError as error:
            # The client has already waited for a topic that is being created.
            raise SinkError(f"rows cannot be written to topic {topic!r}: {error.message}") from error


def _target_of(topic: TopicMetadata, limit: int, largest_request: int | None) -> EncodeTarget:
    """Without a maximum request size, the topic limits the record size."""
    batch = min(limit, MAX_REQUEST if largest_request is None else largest_request)
    return EncodeTarget(topic.name, len(topic.partitions), batch, limit if largest_request is None else batch)


async def _largest_batch(client: Client, topic: str) -> int:
    """The topic's max.message.bytes, if readable; refreshed periodically, because it may change."""
    key = (os.getpid(), id(client), topic)
    known = _limits.get(key)
    if known is None or known[1] < time.monotonic():
        try:
            settings = await describe_configs(client, TOPIC, topic)
            value = next((one.value for one in settings if one.name == "max.message.bytes"), None)
        except KafkaError:
            value = None
        known = (int(value or DEFAULT_LIMIT), time.monotonic() + LIMIT_SECONDS)
        _limits[key] = known
    return known[0]
