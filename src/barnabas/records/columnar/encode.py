"""Encodes Arrow columns into record batches, for sinks.

Rows are assigned to partitions as by Kafka's producer (an explicit partition, else murmur2 of the key, else
sticky), and the rows of a partition are encoded into as few batches as the size limit allows. The producer id is
not known here: batches are built as `Block`s, and the sender seals them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.records.batch import HEADER_SIZE
from barnabas.records.blocks import Block
from barnabas.records.columnar.encode_kernels import assign_partitions, encode_records, group_rows
from barnabas.records.compression import Codec, compress

STICKY_BYTES = 64 * 1024  # bytes of values without a key that go to one partition before the next one

_NO_BYTES = np.empty(0, np.uint8)
_NO_INTS = np.empty(0, np.int32)
_NO_LONGS = np.empty(0, np.int64)
for _empty in (_NO_BYTES, _NO_INTS, _NO_LONGS):
    _empty.flags.writeable = False


class BadRowError(ValueError):
    """A row that cannot be encoded; the message says which and why."""


@dataclass(frozen=True, slots=True)
class EncodeTarget:
    """Partition count and size limits of a topic."""

    topic: str
    partitions: int
    largest_batch: int  # bytes, header included, before compression
    largest_alone: int = 0  # the same for a batch of one record, which may be larger


class BlockEncoder:
    """Encodes rows; keeps the sticky partition for records without a key between calls."""

    def __init__(self, codec: int = Codec.NONE, level: int | None = None, seed: int | None = None) -> None:
        self._codec = codec
        self._level = level
        self._random = random.Random(seed)
        self._sticky: dict[str, tuple[int, int]] = {}

    def encode(
        self, rows: pa.RecordBatch, target: EncodeTarget, now_ms: int | None = None
    ) -> Iterator[Block]:
        """Encode the rows of one topic as batches; rows of a partition keep their order.

        Columns: value, and optionally key, partition, headers, timestamp; others are ignored.
        """
        if not rows.num_rows:
            return
        columns = _Columns(rows, time.time_ns() // 1_000_000 if now_ms is None else now_ms)
        starts, order = self._group(rows, columns, target)
        # One buffer for all batches: copying out costs less than allocating a large buffer.
        scratch = np.empty(min(target.largest_batch, columns.largest_size), np.uint8)
        for partition in range(target.partitions):
            first, last = int(starts[partition]), int(starts[partition + 1])
            while first < last:
                block, first = self._block(columns, order, first, last, scratch, target, partition)
                yield block

    def _group(
        self, rows: pa.RecordBatch, columns: _Columns, target: EncodeTarget
    ) -> tuple[np.ndarray, np.ndarray]:
        assigned = _explicit_partitions(rows, target)
        sticky, filled = self._sticky.get(target.topic) or (self._random.randrange(target.partitions), 0)
        self._sticky[target.topic] = assign_partitions(
            assigned, *columns.key, columns.value[0], target.partitions, sticky, filled, STICKY_BYTES
        )
        starts, order = np.zeros(target.partitions + 1, np.int64), np.empty(rows.num_rows, np.int64)
        group_rows(_frozen(assigned), starts, order)
        return starts, _frozen(order)

    def _block(
        self,
        columns: _Columns,
        order: np.ndarray,
        first: int,
        last: int,
        scratch: np.ndarray,
        target: EncodeTarget,
        partition: int,
    ) -> tuple[Block, int]:
        after, end, latest = columns.encode(scratch, order, first, last)
        if after == first and target.largest_alone > target.largest_batch:
            scratch = np.empty(min(target.largest_alone, columns.largest_size), np.uint8)
            after, end, latest = columns.encode(scratch, order, first, first + 1)
        if after == first:
            largest = max(target.largest_batch, target.largest_alone)
            raise BadRowError(
                f"a row for topic {target.topic!r} is larger than the {largest} bytes that the topic takes: raise its "
                "max.message.bytes, and the option kafka.max.request.size if it is set"
            )
        base = columns.timestamp_of(int(order[first]))
        records = scratch.data[HEADER_SIZE:end]
        data = bytearray(HEADER_SIZE)
        data += compress(self._codec, records, self._level) if self._codec else records
        block = Block(target.topic, partition, data, after - first, self._codec, base, base + latest)
        return block, after


class _Columns:
    """The columns of a batch of rows in the layout of the kernels."""

    def __init__(self, rows: pa.RecordBatch, now_ms: int) -> None:
        self._now_ms = now_ms
        self.key = _bytes_column(_column(rows, "key"))
        self.value = _bytes_column(_column(rows, "value"))
        self.timestamps = _timestamps(_column(rows, "timestamp"))
        headers = _column(rows, "headers")
        self.header_starts, self.names, self.contents = _headers(headers)
        # Five lengths and an offset of 5 bytes, a timestamp of 10: the maximum overhead of a record.
        self.largest_size = HEADER_SIZE + rows.num_rows * 41 + len(self.names[0]) * 10
        self.largest_size += sum(
            int(offsets[-1] - offsets[0]) if len(offsets) else 0
            for offsets in (self.key[0], self.value[0], self.names[0], self.contents[0])
        )

    def encode(self, out: np.ndarray, order: np.ndarray, first: int, last: int) -> tuple[int, int, int]:
        """Encode as many rows as fit into `out`, after the room for a header; see `encode_records`."""
        done: tuple[int, int, int] = encode_records(
            out, HEADER_SIZE, order, first, last, self.timestamps,
            *self.key, *self.value, self.header_starts, *self.names, *self.contents,
        )  # fmt: skip
        return done

    def timestamp_of(self, row: int) -> int:
        return int(self.timestamps[row]) if len(self.timestamps) else self._now_ms


def _column(rows: pa.RecordBatch, name: str) -> Any:
    index = rows.schema.get_field_index(name)
    return rows.column(index) if index >= 0 else None


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def _bytes_column(array: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(offsets, data, valid) of a string or binary column; empty arrays for an absent column."""
    if array is None or pa.types.is_null(array.type):
        return _NO_INTS, _NO_BYTES, _NO_BYTES
    if not (pa.types.is_binary(array.type) or pa.types.is_string(array.type)):
        array = array.cast(pa.binary())  # large types and dictionaries
    _, offsets_buffer, data_buffer = array.buffers()
    if offsets_buffer is None or not len(array):
        return _frozen(np.zeros(len(array) + 1, np.int32)), _NO_BYTES, _valid(array)
    offsets = np.frombuffer(offsets_buffer, np.int32, len(array) + 1, array.offset * 4)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None and data_buffer.size else _NO_BYTES
    return _frozen(offsets), _frozen(data), _valid(array)


def _valid(array: Any) -> np.ndarray:
    if not array.null_count:
        return _NO_BYTES
    return _frozen(array.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8))


def _timestamps(array: Any) -> np.ndarray:
    """Milliseconds; a row without a timestamp gets the current time."""
    if array is None:
        return _NO_LONGS
    if not pa.types.is_integer(array.type):
        array = array.cast(pa.timestamp("ms", tz=array.type.tz), safe=False).cast(pa.int64())
    if array.null_count:
        array = pc.fill_null(array, time.time_ns() // 1_000_000)
    return _frozen(np.ascontiguousarray(array.cast(pa.int64()).to_numpy(zero_copy_only=False)))


def _headers(array: Any) -> tuple[np.ndarray, tuple[Any, ...], tuple[Any, ...]]:
    """(offset of each row's first header, all header keys, all header values); keys are never null."""
    if array is None or pa.types.is_null(array.type):
        return _NO_LONGS, (_NO_INTS, _NO_BYTES), (_NO_INTS, _NO_BYTES, _NO_BYTES)
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    starts = np.zeros(len(array) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    names, contents = array.flatten().flatten()
    if names.null_count:
        raise BadRowError("a header has no key: the field key of the column headers must not be null")
    name_offsets, name_data, _ = _bytes_column(names)
    return _frozen(starts), (name_offsets, name_data), _bytes_column(contents)


def _explicit_partitions(rows: pa.RecordBatch, target: EncodeTarget) -> np.ndarray:
    """The column `partition`, with -1 for null."""
    column = _column(rows, "partition")
    if column is None:
        return np.full(rows.num_rows, -1, np.int32)
    timestamps = pc.fill_null(column.cast(pa.int32()), -1).to_numpy(zero_copy_only=False).astype(np.int32)
    wrong = (timestamps >= target.partitions) | (
        (timestamps < 0) & column.is_valid().to_numpy(zero_copy_only=False)
    )
    if wrong.any():
        raise BadRowError(
            f"a row names partition {int(timestamps[wrong][0])} of topic {target.topic!r}, which has partitions 0 to "
            f"{target.partitions - 1}"
        )
    return np.ascontiguousarray(timestamps)
