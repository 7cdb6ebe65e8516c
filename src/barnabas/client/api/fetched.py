"""Fetched batches as records of the Python client, decoded when the caller takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.client.api.errors import SerializationError
from barnabas.client.fetching import FetchedPartition
from barnabas.client.opening import check_batch
from barnabas.common.errors import KafkaError
from barnabas.common.types import TopicPartition
from barnabas.records import AbortedTransactions, Header, iterate_records
from barnabas.records.batch import iterate_headers

if TYPE_CHECKING:
    import pyarrow as pa


class ConsumerRecord(NamedTuple):
    """A record. Key and value are bytes or None, unless deserializers are given; the timestamp is in milliseconds."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: tuple[Header, ...] = ()

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class Deserializers(NamedTuple):
    key: Callable[[bytes], Any] | None = None
    value: Callable[[bytes], Any] | None = None

    def apply(self, record: ConsumerRecord) -> ConsumerRecord:
        key, value, what = record.key, record.value, "key"
        try:
            if self.key is not None and key is not None:
                key = self.key(key)
            what = "value"
            if self.value is not None and value is not None:
                value = self.value(value)
        except Exception as error:
            raise SerializationError(
                f"the {what} of the record at offset {record.offset} of {record.tp} cannot be deserialized: {error}"
            ) from error
        return record._replace(key=key, value=value)


class FetchedRecords:
    """Batches of one partition. `position` is the offset after the records that were taken."""

    def __init__(
        self, fetched: FetchedPartition, deserializers: Deserializers | None, *, committed_only: bool
    ) -> None:
        self.tp = fetched.partition
        self.position = fetched.fetch_offset
        self.is_done = False
        self._fetched = fetched
        self._committed_only = committed_only
        self._deserializers = deserializers
        self._decoded = self._decode()
        self._pending: list[ConsumerRecord] = []  # of one batch, in reverse order
        self._damage: KafkaError | None = None
        self._next = fetched.fetch_offset  # after the pending records

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Up to `limit` records; fewer at the end, or before a record that cannot be deserialized."""
        taken: list[ConsumerRecord] = []
        while len(taken) < limit and not self.is_done:
            if not self._pending:
                self._open_next()
                continue
            part = self._pending[: -(limit - len(taken)) - 1 : -1]
            if self._deserializers is not None:
                part = self._deserialized(part, is_first=not taken)
            taken += part
            del self._pending[len(self._pending) - len(part) :]
            self.position = (
                self._next if not self._pending else part[-1].offset + 1 if part else self.position
            )
            if self._deserializers is not None and self._pending:
                break
        return taken

    def take_rows(self, columns: tuple[str, ...]) -> Iterator[tuple[pa.RecordBatch, int]]:
        """The rest as Arrow batches, each with the position after it."""
        from barnabas.client.api.arrow import decode_rows

        rest = decode_rows(self._fetched, self.position, committed_only=self._committed_only, columns=columns)
        for rows in rest:
            self.position = rows.column("offset")[-1].as_py() + 1
            yield rows, self.position
        for _, header in iterate_headers(self._fetched.records):
            self.position = max(self.position, header.next_offset)
        self.is_done = True

    def _open_next(self) -> None:
        if self._damage is not None:
            raise self._damage
        try:
            self._pending, self._next = next(self._decoded)
        except StopIteration:
            self.is_done = True
        except KafkaError as error:  # again and again, until the caller seeks to another offset
            self._damage = error
            raise
        if not self._pending:
            self.position = self._next

    def _decode(self) -> Iterator[tuple[list[ConsumerRecord], int]]:
        """Records of each batch in reverse order, and the offset after it."""
        (topic, index), first = self.tp, self._fetched.fetch_offset
        aborted = AbortedTransactions(self._fetched.aborted if self._committed_only else ())
        for start, header in iterate_headers(self._fetched.records):
            batch = self._fetched.records[start : start + header.size]
            check_batch(self.tp, batch, header)
            records: list[ConsumerRecord] = []
            if not aborted.hide(batch, header):
                records = [ConsumerRecord(topic, index, *record) for record in iterate_records(batch, header)]
                if header.base_offset < first:
                    records = [record for record in records if record.offset >= first]
                records.reverse()
            yield records, max(self._next, header.next_offset)

    def _deserialized(self, part: list[ConsumerRecord], *, is_first: bool) -> list[ConsumerRecord]:
        assert self._deserializers is not None
        done: list[ConsumerRecord] = []
        for record in part:
            try:
                done.append(self._deserializers.apply(record))
            except SerializationError:
                if is_first and not done:
                    raise
                break
        return done
