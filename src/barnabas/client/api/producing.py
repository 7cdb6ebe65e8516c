"""Producer for asyncio: typed options, serializers, transactions and batches, on the client's Producer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, TypeGuard

from barnabas.client.api.errors import DeliveryError, SerializationError
from barnabas.client.api.options import CheckedOptions, ProducerOptions
from barnabas.client.api.serializers import registry_serializer
from barnabas.client.errors import ClientError
from barnabas.client.groups import CommittedOffset
from barnabas.client.producer import Producer as RecordProducer
from barnabas.client.producing.record_accumulator import Delivered, ProducerBatch, RecordDelivery
from barnabas.client.producing.transaction_manager import GroupMetadata, TransactionManager
from barnabas.common.errors import KafkaError
from barnabas.common.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Unpack

    import pyarrow as pa

Headers: TypeAlias = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]]
Timestamp: TypeAlias = int | datetime
Offsets: TypeAlias = Mapping[TopicPartition, int | CommittedOffset]
Encode = Callable[[str, Any], bytes | None]


class RecordMetadata(NamedTuple):
    """Position of a delivered record. The offset is -1 with acks=0; the timestamp is in milliseconds."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class ProducerRecord(NamedTuple):
    """Record for `send_batch`."""

    value: Any = None
    key: Any = None
    headers: Headers | None = None
    timestamp: Timestamp | None = None
    partition: int | None = None


class BatchMetadata(NamedTuple):
    """Position of consecutive records of `send_batch`."""

    topic: str
    partition: int
    first_offset: int
    record_count: int


class AsyncDelivery:
    """Awaitable result of one record: RecordMetadata, or DeliveryError."""

    __slots__ = ("_delivery",)

    def __init__(self, delivery: RecordDelivery) -> None:
        self._delivery = delivery

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        try:
            delivered = yield from self._delivery.__await__()
        except (ClientError, KafkaError) as error:
            raise DeliveryError.of(self._delivery.partition, error) from error
        return metadata_of(delivered)

    @property
    def done(self) -> bool:
        return self._delivery.done


def metadata_of(delivered: Delivered) -> RecordMetadata:
    return RecordMetadata(*delivered.partition, delivered.offset, delivered.timestamp)


class ProducerCore:
    """Common part of both forms: options, serializers, and the producer of the client."""

    def __init__(
        self,
        name: str,
        bootstrap_servers: str | Iterable[str] | None,
        config: Mapping[str, Any] | None,
        options: Mapping[str, Any],
    ) -> None:
        read = CheckedOptions(name, ProducerOptions, bootstrap_servers, config, options)
        self.client, self._resources = read.client(), read.resources
        self.settings = read.producer()
        transactional_id = read.text("transactional_id")
        timeout_ms = int(read.number("transaction_timeout_ms", 60_000, 1))
        if transactional_id is not None and not self.settings.idempotent:
            raise ValueError('transactional_id needs acks="all" and enable_idempotence=True')
        self.encode_key = _encoder(read, "key")
        self.encode_value = _encoder(read, "value")
        self.transactions = (
            None
            if transactional_id is None
            else TransactionManager(self.client, transactional_id, timeout_ms)
        )
        self.producer = RecordProducer(self.client, self.settings, self.transactions)

    async def close(self, *, flush: bool) -> None:
        try:
            if self.transactions is not None and self.transactions.is_open:
                await self.abort()
            await self.producer.close(flush=flush)
        finally:
            await self.client.close()
            self._resources.close()

    # -- transactions -------------------------------------------------------------------------------

    def manager(self) -> TransactionManager:
        if self.transactions is None:
            raise ValueError(
                'transactions need a transactional_id: Producer(..., transactional_id="orders-1")'
            )
        return self.transactions

    async def begin(self) -> None:
        manager = self.manager()
        await manager.initialize()
        manager.begin()

    async def commit(self) -> None:
        manager = self.manager()
        manager.check_open()
        try:
            await self.producer.flush()
        except (ClientError, KafkaError) as error:
            raise manager.failed(error) from error
        await manager.end(committed=True)

    async def abort(self) -> None:
        manager = self.manager()
        await self.producer.discard("the transaction was aborted before {} took the record")
        await manager.end(committed=False)

    async def send_offsets(self, offsets: Offsets, group: GroupMetadata) -> None:
        await self.manager().send_offsets(offsets, group)

    # -- batches ------------------------------------------------------------------------------------

    async def send_rows(self, topic: str, rows: pa.RecordBatch | pa.Table) -> list[ProducerBatch]:
        """Buffer Arrow rows; a batch per partition and MiB."""
        from barnabas.client.api.arrow import encode_rows

        self._check_no_serializers()
        count = await self.producer.partition_count(topic)
        batches = []
        for block in encode_rows(rows, topic, count, self.settings):
            batches.append(await self.producer.enqueue_block(block))
            await asyncio.sleep(0)  # encoding takes milliseconds per block
        return batches

    def _check_no_serializers(self) -> None:
        if self.encode_key is not None or self.encode_value is not None:
            raise ValueError(
                "Arrow columns are sent as they are: use a producer without serializers and schemas"
            )

    def append_value(self, topic: str, value: Any) -> RecordDelivery | None:
        """Add bytes to the batch that keyless records fill now, without waiting; None: use `enqueue`."""
        is_plain = type(value) is bytes and self.encode_value is None
        return self.producer.append_value(topic, value) if is_plain else None

    async def enqueue(self, topic: str, record: ProducerRecord) -> RecordDelivery:
        value, key, headers, timestamp, partition = record
        data, name = self.encoded(topic, value, key)
        moment, pairs = milliseconds(timestamp), headers_of(headers)
        enqueue = self.producer.enqueue
        return await enqueue(topic, data, name, partition=partition, timestamp=moment, headers=pairs)

    def encoded(self, topic: str, value: Any, key: Any) -> tuple[bytes | None, bytes | None]:
        if self.encode_value is not None and value is not None:
            value = self.encode_value(topic, value)
        if self.encode_key is not None and key is not None:
            key = self.encode_key(topic, key)
        return as_bytes("value", value), as_bytes("key", key)


def as_bytes(what: str, value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(
        f"a {what} must be bytes, str or None, not {type(value).__name__}: "
        f"pass {what}_serializer or {what}_schema for other types"
    )


def headers_of(headers: Headers | None) -> tuple[tuple[str, bytes | None], ...]:
    if not headers:
        return ()
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((name, as_bytes("header", value)) for name, value in pairs)


def milliseconds(timestamp: Timestamp | None) -> int | None:
    return int(timestamp.timestamp() * 1000) if isinstance(timestamp, datetime) else timestamp


def record_of(given: Any) -> ProducerRecord:
    """A ProducerRecord; anything else is a value."""
    return given if isinstance(given, ProducerRecord) else ProducerRecord(given)


def is_arrow(records: Any) -> TypeGuard[pa.RecordBatch | pa.Table]:
    return type(records).__module__.partition(".")[0] == "pyarrow"


def _encoder(options: CheckedOptions, what: str) -> Encode | None:
    serializer, schema = options.function(f"{what}_serializer"), options.text(f"{what}_schema")
    if schema is not None:
        if serializer is not None:
            raise ValueError(f"{what}_serializer and {what}_schema are mutually exclusive")
        return registry_serializer(options.text("schema_registry_url"), schema, what, options.resources)
    if serializer is None:
        return None

    def encode(topic: str, value: Any) -> bytes | None:
        try:
            return as_bytes(what, serializer(value))
        except Exception as error:
            raise SerializationError(
                f"the {what} of a record for {topic} cannot be serialized: {error}"
            ) from error

    return encode


def merged(batches: Iterable[tuple[TopicPartition, int, int]]) -> list[BatchMetadata]:
    """Consecutive positions as one."""
    found: list[BatchMetadata] = []
    last: dict[TopicPartition, int] = {}
    for tp, offset, count in batches:
        at = last.get(tp)
        if at is not None and offset >= 0 and found[at].first_offset + found[at].record_count == offset:
            found[at] = found[at]._replace(record_count=found[at].record_count + count)
        else:
            last[tp] = len(found)
            found.append(BatchMetadata(*tp, offset, count))
    return found


async def delivered_runs(deliveries: Iterable[RecordDelivery]) -> list[BatchMetadata]:
    """Positions of delivered records, batch by batch; DeliveryError for the first that was not delivered."""
    runs: list[tuple[TopicPartition, int, int]] = []
    for _, group in groupby(deliveries, attrgetter("batch")):
        members = list(group)
        first, last = members[0].delivered, members[-1].delivered
        # Not so if the batch was split, or has records of other threads in between.
        if first and last and last.offset - first.offset == (first.offset >= 0) * (len(members) - 1):
            runs.append((first.partition, first.offset, len(members)))
            continue
        for delivery in members:
            position = await AsyncDelivery(delivery)
            runs.append((TopicPartition(position.topic, position.partition), position.offset, 1))
    return merged(runs)


class AsyncProducer:
    """Producer for asyncio.

    async with AsyncProducer("localhost:9092") as producer:
        delivery = await producer.send("orders", b"first")
        print((await delivery).offset)

    Idempotent by default. Leaving the `async with` block waits until every record is delivered.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._core = ProducerCore("AsyncProducer", bootstrap_servers, config, options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(flush=error is None)

    async def close(self, *, flush: bool = True) -> None:
        """Deliver what is buffered, unless `flush` is False, and close. An open transaction is aborted."""
        await self._core.close(flush=flush)

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Headers | None = None,
        timestamp: Timestamp | None = None,
        partition: int | None = None,
    ) -> AsyncDelivery:
        """Buffer a record; waits for room in the buffer. Await the result for partition and offset."""
        if key is None and headers is None and timestamp is None and partition is None:
            added = self._core.append_value(topic, value)
            if added is not None:
                return AsyncDelivery(added)
        record = ProducerRecord(value, key, headers, timestamp, partition)
        return AsyncDelivery(await self._core.enqueue(topic, record))

    async def send_batch(
        self, topic: str, records: Iterable[Any] | pa.RecordBatch | pa.Table
    ) -> list[BatchMetadata]:
        """Send values, ProducerRecords, or Arrow rows, and wait until all are delivered.

        Arrow columns: `value`, and optionally `key`, `partition`, `timestamp` and `headers`.
        """
        if is_arrow(records):
            blocks = await self._core.send_rows(topic, records)
            return merged([(block.partition, (await block).base_offset, block.count) for block in blocks])
        deliveries = [
            self._core.append_value(topic, each) or await self._core.enqueue(topic, record_of(each))
            for each in records
        ]
        await self.flush()
        return await delivered_runs(deliveries)

    async def flush(self) -> None:
        """Wait until every record is delivered; raises the first error since the last flush."""
        await self._core.producer.flush()

    @property
    def buffered_bytes(self) -> int:
        """Bytes that are not delivered yet; at most buffer_memory."""
        return self._core.producer.buffered_bytes

    # -- transactions -------------------------------------------------------------------------------

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Commit at the end of the block; abort if it raises."""
        await self.begin_transaction()
        try:
            yield self
        except BaseException:
            await self._abort_after_error()
            raise
        try:
            await self.commit_transaction()
        except (ClientError, KafkaError):
            await self._abort_after_error()
            raise

    async def _abort_after_error(self) -> None:
        try:
            await self.abort_transaction()
        except (ClientError, KafkaError):
            return  # the error of the block is the one to report; the coordinator aborts after the timeout

    async def begin_transaction(self) -> None:
        await self._core.begin()

    async def commit_transaction(self) -> None:
        await self._core.commit()

    async def abort_transaction(self) -> None:
        await self._core.abort()

    async def send_offsets(self, offsets: Offsets, group: GroupMetadata | str) -> None:
        """Commit offsets of a consumer group in the transaction: `consumer.group_metadata()`, or a group id."""
        await self._core.send_offsets(offsets, group_of(group))


def group_of(group: GroupMetadata | str) -> GroupMetadata:
    return GroupMetadata(group) if isinstance(group, str) else group
