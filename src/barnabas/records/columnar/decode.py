"""Fetched batches to columns: the arrays that the kernel fills, and what Arrow makes of them.

planned = plan_batches(records, first=120, until=5000)
for columns in decode(planned, {"value", "offset"}, 120, 5000):
    columns.value  # a pyarrow array

Only the wanted columns are written; the others are stepped over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barnabas.records.columnar import decode_kernels as kernels
from barnabas.records.columnar.plan import DecodePlan, Piece, PlannedBatch, open_pieces
from barnabas.records.record import InvalidRecords, iterate_records

BITS = {
    "offset": kernels.WANT_OFFSET,
    "timestamp": kernels.WANT_TIMESTAMP,
    "key": kernels.WANT_KEY,
    "value": kernels.WANT_VALUE,
    "headers": kernels.WANT_HEADERS,
    "timestampType": kernels.WANT_TYPE,
}
"""The columns inside records, with the names of Spark's Kafka connector."""

TIMESTAMP = pa.timestamp("us", tz="UTC")
HEADERS = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """The records of a piece; `arrays` holds the requested columns."""

    rows: int
    arrays: dict[str, pa.Array] = field(default_factory=dict)


class Strings:
    """A column of byte strings while the kernel fills it; empty if the column is not requested."""

    __slots__ = ("data", "offsets", "state", "valid")

    def __init__(self, rows: int, size: int) -> None:
        # Pages are mapped on first write: reserving the worst case costs nothing.
        self.offsets = np.empty(rows + 1, np.int32)
        self.offsets[0] = 0
        self.data = np.empty(size, np.uint8)
        self.valid = np.full((rows + 7) // 8, 0xFF, np.uint8)
        self.state = np.zeros(2, np.int64)

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.offsets, self.data, self.valid, self.state

    def array(self, rows: int, kind: pa.DataType) -> pa.Array:
        written, nulls = map(int, self.state)
        valid = pa.py_buffer(self.valid) if nulls else None
        buffers = [valid, pa.py_buffer(self.offsets[: rows + 1]), pa.py_buffer(self.data[:written])]
        return pa.Array.from_buffers(kind, rows, buffers, nulls)


def decode(planned: DecodePlan, selected: Collection[str], first: int, until: int) -> Iterator[RecordColumns]:
    """Pieces with the records first <= offset < until; InvalidRecords if bytes are not valid records."""
    for piece in open_pieces(planned):
        columns = decode_piece(piece, planned, selected, first, until)
        if columns.rows:
            yield columns


def decode_piece(
    piece: Piece, planned: DecodePlan, columns: Collection[str], first: int, until: int
) -> RecordColumns:
    bits = sum(BITS[name] for name in columns)
    max_rows, size = piece.max_rows, len(piece.source)

    def strings(bit: int, rows: int) -> Strings:
        return Strings(rows, size) if bits & bit else Strings(0, 0)

    def longs(bit: int) -> npt.NDArray[np.int64]:
        return np.empty(max_rows if bits & bit else 0, np.int64)

    max_headers = size // kernels.MIN_HEADER + 1
    offsets, timestamps = longs(kernels.WANT_OFFSET), longs(kernels.WANT_TIMESTAMP)
    types = np.empty(max_rows if bits & kernels.WANT_TYPE else 0, np.int32)
    keys, values = strings(kernels.WANT_KEY, max_rows), strings(kernels.WANT_VALUE, max_rows)
    header_lists = Strings(max_rows, 0) if bits & kernels.WANT_HEADERS else Strings(0, 0)
    header_keys = strings(kernels.WANT_HEADERS, max_headers)
    header_values = strings(kernels.WANT_HEADERS, max_headers)
    rows, bad = kernels.decode_batches(
        piece.source, piece.plan, bits, first, until,
        offsets, timestamps, types, keys.arguments, values.arguments,
        header_lists.offsets, header_lists.valid, header_lists.state,
        header_keys.arguments, header_values.arguments,
    )  # fmt: skip
    if bad != kernels.BAD:
        raise _reason(planned, piece.batches[bad])
    arrays: dict[str, pa.Array] = {}
    if bits & kernels.WANT_OFFSET:
        arrays["offset"] = _numbers(pa.int64(), offsets, rows)
    if bits & kernels.WANT_TIMESTAMP:
        arrays["timestamp"] = _numbers(TIMESTAMP, timestamps, rows)
    if bits & kernels.WANT_TYPE:
        arrays["timestampType"] = _numbers(pa.int32(), types, rows)
    if bits & kernels.WANT_KEY:
        arrays["key"] = keys.array(rows, pa.binary())
    if bits & kernels.WANT_VALUE:
        arrays["value"] = values.array(rows, pa.binary())
    if bits & kernels.WANT_HEADERS:
        arrays["headers"] = _headers(rows, header_lists, header_keys, header_values)
    return RecordColumns(rows, arrays)


def _numbers(kind: pa.DataType, numbers: npt.NDArray[Any], rows: int) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(numbers[:rows])], 0)


def _headers(rows: int, lists: Strings, keys: Strings, values: Strings) -> pa.Array:
    count, nulls = map(int, lists.state)
    pairs = pa.StructArray.from_arrays(
        [keys.array(count, pa.string()), values.array(count, pa.binary())], fields=list(HEADERS.value_type)
    )
    valid = pa.py_buffer(lists.valid) if nulls else None
    offsets = pa.py_buffer(lists.offsets[: rows + 1])
    return pa.Array.from_buffers(HEADERS, rows, [valid, offsets], nulls, children=[pairs])


def _reason(planned: DecodePlan, batch: PlannedBatch) -> InvalidRecords:
    """Decode the batch with the plain reader, which reports the invalid record."""
    start, header = batch
    where = f"the batch at offset {header.base_offset}"
    try:
        for _ in iterate_records(planned.records[start : start + header.size], header):
            pass
    except InvalidRecords as error:
        return InvalidRecords(f"{where}: {error.message}", error.record_errors)
    return InvalidRecords(f"{where} holds a number of more than 64 bits")
