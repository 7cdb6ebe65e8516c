"""JSON objects without nesting, the most common events, parsed directly into columns.

Four times as fast as Arrow's reader, which reads the remaining rows. Both produce the same columns for a row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.records.columnar import json_kernels as kernels

_KINDS: dict[pa.DataType, int] = {
    pa.string(): kernels.TEXT,
    pa.int8(): kernels.INTEGER,
    pa.int16(): kernels.INTEGER,
    pa.int32(): kernels.INTEGER,
    pa.int64(): kernels.INTEGER,
    pa.float64(): kernels.NUMBER,
    pa.bool_(): kernels.TRUTH,
}
MAX_FIELDS = 32  # two numbers are stored per field and row

Bytes = npt.NDArray[np.uint8]
Spans = npt.NDArray[np.int32]


class PlainRows(NamedTuple):
    """The columns, and the rows left to another parser: they are null."""

    columns: list[pa.Array]
    odd: npt.NDArray[np.bool_]


def is_plain(schema: pa.Schema) -> bool:
    """True if this module can read every field type."""
    return 0 < len(schema) <= MAX_FIELDS and all(field.type in _KINDS for field in schema)


class PlainReader:
    """Reads the fields of a schema that `is_plain`."""

    def __init__(self, schema: pa.Schema) -> None:
        names = [field.name.encode() for field in schema]
        self._types = [field.type for field in schema]
        self._names = np.frombuffer(b"".join(names), np.uint8)
        self._bounds = np.cumsum([0, *map(len, names)], dtype=np.int32)
        self._kinds = np.array([_KINDS[kind] for kind in self._types], np.int32)

    def read(self, values: pa.Array) -> PlainRows:
        """Raises ArrowInvalid if text is not UTF-8."""
        rows = len(values)
        _, offsets_buffer, data_buffer = values.buffers()
        offsets = np.frombuffer(offsets_buffer, np.int32)[values.offset : values.offset + rows + 1]
        data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
        starts = np.empty((len(self._types), rows), np.int32)
        ends, odd = np.empty_like(starts), np.zeros(rows, np.uint8)
        kernels.find_values(
            offsets, data, _nulls(values), self._names, self._bounds, self._kinds, starts, ends, odd
        )
        columns = [
            _column(kind, data, starts[index], ends[index], odd) for index, kind in enumerate(self._types)
        ]
        return PlainRows(columns, odd.astype(np.bool_))


def _nulls(values: pa.Array) -> Bytes:
    if not values.null_count:
        return np.zeros(len(values), np.uint8)
    found: Bytes = values.is_null().to_numpy(zero_copy_only=False).astype(np.uint8)
    return found


def _column(kind: pa.DataType, data: Bytes, starts: Spans, ends: Spans, odd: Bytes) -> pa.Array:
    valid = np.zeros(starts.size, np.uint8)
    if pa.types.is_string(kind):
        return _texts(data, starts, ends, valid)
    if pa.types.is_boolean(kind):
        there = starts != kernels.ABSENT
        truth = np.zeros(starts.size, np.bool_)
        truth[there] = data[starts[there]] == ord("t")
        return pa.array(truth, mask=~there)
    if pa.types.is_floating(kind):
        doubles = np.empty(starts.size, np.float64)
        kernels.read_doubles(data, starts, ends, doubles, valid, odd)
        return _numbers(kind, doubles, valid)
    longs = np.empty(starts.size, np.int64)
    most = (1 << kind.bit_width - 1) - 1
    kernels.read_integers(data, starts, ends, most, longs, valid, odd)
    return _numbers(kind, longs.astype(kind.to_pandas_dtype(), copy=False), valid)


def _texts(data: Bytes, starts: Spans, ends: Spans, valid: Bytes) -> pa.Array:
    there = starts != kernels.ABSENT
    out = np.empty(int((ends[there] - starts[there]).sum(dtype=np.int64)), np.uint8)
    offsets = np.empty(starts.size + 1, np.int32)
    kernels.copy_texts(data, starts, ends, offsets, out, valid)
    buffers = [_bits(valid), pa.py_buffer(offsets), pa.py_buffer(out)]
    column = pa.Array.from_buffers(pa.string(), starts.size, buffers)
    column.validate(full=True)
    return column


def _numbers(kind: pa.DataType, numbers: npt.NDArray[np.generic], valid: Bytes) -> pa.Array:
    return pa.Array.from_buffers(kind, len(numbers), [_bits(valid), pa.py_buffer(numbers)])


def _bits(valid: Bytes) -> pa.Buffer | None:
    """None, which is faster to use, if nothing is null."""
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def fill_in(columns: list[pa.Array], odd: npt.NDArray[np.bool_], others: list[pa.Array]) -> list[pa.Array]:
    """Fill the odd rows of each column with the result of the other parser."""
    mask = pa.array(odd)
    return [pc.replace_with_mask(column, mask, other) for column, other in zip(columns, others, strict=True)]
