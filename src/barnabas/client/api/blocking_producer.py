"""Blocking producer: `send` encodes and buffers in the caller's thread, the shared loop delivers."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from barnabas.client.api.errors import DeliveryError
from barnabas.client.api.loop import SharedLoop, shared_loop
from barnabas.client.api.producing import (
    BatchMetadata,
    Headers,
    Offsets,
    ProducerCore,
    RecordMetadata,
    Timestamp,
    delivered_runs,
    group_of,
    headers_of,
    is_arrow,
    merged,
    metadata_of,
    milliseconds,
    record_of,
)
from barnabas.client.errors import ClientError
from barnabas.client.producing.record_accumulator import Delivered, ProducerBatch, RecordDelivery
from barnabas.client.producing.transaction_manager import GroupMetadata
from barnabas.common.errors import KafkaError

if TYPE_CHECKING:
    from typing import Unpack

    import pyarrow as pa

    from barnabas.client.api.options import ProducerOptions

T = TypeVar("T")


class DeliveryFuture:
    """Result of `send`: RecordMetadata when the record is delivered, or DeliveryError."""

    __slots__ = ("_delivery", "_loop")

    def __init__(self, delivery: RecordDelivery, loop: SharedLoop) -> None:
        self._delivery = delivery
        self._loop = loop

    @property
    def done(self) -> bool:
        return self._delivery.done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the delivery; TimeoutError after `timeout` seconds."""
        delivered = self._delivery.delivered
        if delivered is None:
            try:
                delivered = self._loop.run(_delivered(self._delivery), timeout)
            except (ClientError, KafkaError) as error:
                raise DeliveryError.of(self._delivery.partition, error) from error
        return metadata_of(delivered)


async def _delivered(delivery: RecordDelivery) -> Delivered:
    return await delivery


class BlockingProducer:
    """Producer; `barnabas.Producer`. It may be shared by threads.

    with Producer("localhost:9092") as producer:
        producer.send("orders", b"first")
        print(producer.send("orders", b"second").result().offset)

    Idempotent by default. `send` returns at once unless the buffer is full; leaving the `with` block waits until every
    record is delivered, and raises the first error.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._loop = shared_loop()
        self._core = ProducerCore("Producer", bootstrap_servers, config, options)
        self._append = self._core.producer.append
        self._append_value = self._core.producer.append_value
        self._is_plain = self._core.encode_value is None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(flush=error is None)

    def close(self, *, flush: bool = True) -> None:
        """Deliver what is buffered, unless `flush` is False, and close. An open transaction is aborted."""
        self._run(self._core.close(flush=flush))

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Headers | None = None,
        timestamp: Timestamp | None = None,
        partition: int | None = None,
    ) -> DeliveryFuture:
        """Buffer a record; waits for room in the buffer for at most max_block_ms (BufferFullError)."""
        return DeliveryFuture(self._buffer(topic, value, key, headers, timestamp, partition), self._loop)

    def _buffer(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Headers | None,
        timestamp: Timestamp | None,
        partition: int | None,
    ) -> RecordDelivery:
        loop = self._loop
        if loop.is_lost:
            loop.refuse()
        if type(value) is bytes and key is None and self._is_plain:
            if headers is None and timestamp is None and partition is None:
                added = self._append_value(topic, value)
                if added is not None:
                    return added
        else:
            value, key = self._core.encoded(topic, value, key)
        moment = None if timestamp is None else milliseconds(timestamp)
        pairs = headers_of(headers) if headers else ()
        chosen = self._core.producer.choose(topic, key, partition)
        if chosen is not None:
            delivery = self._append(topic, value, key, chosen, moment, pairs)
            if delivery is not None:
                return delivery
            partition = chosen
        enqueue = self._core.producer.enqueue
        return loop.run(enqueue(topic, value, key, partition=partition, timestamp=moment, headers=pairs))

    def send_batch(
        self, topic: str, records: Iterable[Any] | pa.RecordBatch | pa.Table
    ) -> list[BatchMetadata]:
        """Send values, ProducerRecords, or Arrow rows, and wait until all are delivered.

        Arrow columns: `value`, and optionally `key`, `partition`, `timestamp` and `headers`.
        """
        if is_arrow(records):
            return self._run(self._send_rows(topic, records))
        if self._loop.is_lost:
            self._loop.refuse()
        append = self._core.append_value
        deliveries = [append(topic, each) or self._buffer(topic, *record_of(each)) for each in records]
        self.flush()
        return self._run(delivered_runs(deliveries))

    async def _send_rows(self, topic: str, rows: pa.RecordBatch | pa.Table) -> list[BatchMetadata]:
        blocks: list[ProducerBatch] = await self._core.send_rows(topic, rows)
        return merged([(block.partition, (await block).base_offset, block.count) for block in blocks])

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every record is delivered; raises the first error since the last flush."""
        self._loop.run(self._core.producer.flush(), timeout)

    @property
    def buffered_bytes(self) -> int:
        """Bytes that are not delivered yet; at most buffer_memory."""
        return self._core.producer.buffered_bytes

    # -- transactions -------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Commit at the end of the block; abort if it raises."""
        self.begin_transaction()
        try:
            yield self
        except BaseException:
            self._abort_after_error()
            raise
        try:
            self.commit_transaction()
        except (ClientError, KafkaError):
            self._abort_after_error()
            raise

    def _abort_after_error(self) -> None:
        try:
            self.abort_transaction()
        except (ClientError, KafkaError):
            return  # the error of the block is the one to report; the coordinator aborts after the timeout

    def begin_transaction(self) -> None:
        self._run(self._core.begin())

    def commit_transaction(self) -> None:
        self._run(self._core.commit())

    def abort_transaction(self) -> None:
        self._run(self._core.abort())

    def send_offsets(self, offsets: Offsets, group: GroupMetadata | str) -> None:
        """Commit offsets of a consumer group in the transaction: `consumer.group_metadata()`, or a group id."""
        self._run(self._core.send_offsets(offsets, group_of(group)))

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(coroutine)
