"""Binary columns, the parts of encoded values: made column by column, and joined row by row by Arrow.

An `Encode` maps a column to a binary column of the same length, which is null exactly where the value is. Nothing here
runs once per value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Encode = Callable[[pa.Array], pa.Array]

EMPTY = pa.scalar(b"", pa.binary())


def constant(data: bytes) -> pa.Scalar:
    return pa.scalar(data, pa.binary())


def joined(*parts: pa.Array | pa.Scalar) -> pa.Array:
    """Concatenate row by row; null where any part is."""
    return pc.binary_join_element_wise(*parts, EMPTY, null_handling="emit_null")


def from_numpy(offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def fixed(rows: npt.NDArray[np.uint8]) -> pa.Array:
    """One value per row of a matrix."""
    count, width = rows.shape
    return from_numpy(np.arange(count + 1, dtype=np.int64) * width, rows.reshape(-1))


def unsigned(numbers: npt.NDArray[np.uint64]) -> pa.Array:
    """Base-128 numbers, the low bits first, as in Avro and Protobuf."""
    sizes = np.ones(len(numbers), np.int64)
    for bits in range(7, 64, 7):
        is_longer = numbers >> np.uint64(bits) > 0
        if not is_longer.any():
            break
        sizes += is_longer
    offsets = np.zeros(len(numbers) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    for index in range(int(sizes.max(initial=0))):
        rows = np.flatnonzero(sizes > index)
        low = (numbers[rows] >> np.uint64(7 * index)).astype(np.uint8) & 0x7F
        data[offsets[rows] + index] = low | np.where(sizes[rows] > index + 1, 0x80, 0).astype(np.uint8)
    return from_numpy(offsets, data)


def zigzag(numbers: npt.NDArray[np.int64]) -> pa.Array:
    """Signed numbers of Avro, and sint32 and sint64 of Protobuf."""
    return unsigned(((numbers << 1) ^ (numbers >> 63)).view(np.uint64))


def whole_numbers(column: pa.Array) -> npt.NDArray[np.int64]:
    """Values of integers, dates, times and booleans; 0 where null."""
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    numbers = column.cast(pa.int64())
    found: npt.NDArray[np.int64] = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    return found


def floats(column: pa.Array, kind: Any) -> pa.Array:
    """Little-endian IEEE 754."""
    numbers = column.cast(pa.float32() if kind == "<f4" else pa.float64()).fill_null(0)
    values = np.ascontiguousarray(numbers.to_numpy(zero_copy_only=False), dtype=kind)
    return fixed(values.view(np.uint8).reshape(len(values), values.itemsize))


def decimals(column: pa.Array, width: int) -> pa.Array:
    """Unscaled decimals, big-endian two's complement in `width` bytes."""
    words = np.frombuffer(_plain(column).buffers()[1] or b"", np.uint8)[: 16 * len(column)]
    return fixed(words.reshape(-1, 16)[:, ::-1][:, 16 - width :])


def decimal_bytes(precision: int) -> int:
    """Bytes that hold every unscaled decimal with so many digits."""
    return int(10**precision).bit_length() // 8 + 1


def sized(column: pa.Array, size: Callable[[npt.NDArray[np.int64]], pa.Array]) -> pa.Array:
    """Bytes behind their length."""
    data = column.cast(pa.binary())
    return joined(size(whole_numbers(pc.binary_length(data))), data)


def valid_where(encoded: pa.Array, column: pa.Array) -> pa.Array:
    """The encoded values; null where the column is null."""
    if not column.null_count:
        return encoded
    return pc.if_else(column.is_valid(), encoded, pa.scalar(None, pa.binary()))


def flattened(column: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """(offsets, items) of lists or maps; a null has no items."""
    if pa.types.is_map(column.type):
        column = _plain(column)
        entries = pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])
        lists = pa.ListArray.from_arrays(column.offsets, entries)
        mask = column.is_valid()
        column = lists if not column.null_count else pc.if_else(mask, lists, pa.scalar(None, lists.type))
    lengths = whole_numbers(pc.list_value_length(column))
    offsets = np.zeros(len(column) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets, column.flatten()


def gathered(offsets: npt.NDArray[np.int64], items: pa.Array) -> pa.Array:
    """Concatenate the encoded items of each list. Copies no data."""
    if not len(items):
        return from_numpy(np.zeros(len(offsets), np.int64), np.empty(0, np.uint8))
    items = _plain(items)
    ends = np.frombuffer(items.buffers()[1], np.int32)[: len(items) + 1].astype(np.int64)
    data = np.frombuffer(items.buffers()[2] or b"", np.uint8)
    return from_numpy(ends[offsets], data)


def _plain(column: pa.Array) -> pa.Array:
    """The same values, beginning with the first of their buffers."""
    return column if column.offset == 0 else pa.concat_arrays([column, column[:0]])
