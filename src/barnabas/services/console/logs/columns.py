"""Columns of a log line, and helpers for Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

LEVELS = ("none", "trace", "debug", "info", "warn", "error", "fatal")
"""Lines without a level have `none`."""
NAMES = ("host", "service", "source", "topic")
"""Dictionary-encoded columns with few distinct values."""
MAX_NAME = 1000
"""Characters; record keys may be much longer."""

_LEVEL = pa.dictionary(pa.int8(), pa.string())
_NAME = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        pa.field("time", pa.timestamp("ms", tz="UTC"), nullable=False),
        pa.field("level", _LEVEL, nullable=False),
        *(pa.field(name, _NAME, nullable=False) for name in NAMES),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
    ]
)
"""A `message` may contain invalid UTF-8: it is never cast, only viewed."""

Longs = npt.NDArray[np.int64]


def text_of(value: bytes | None) -> str:
    return "" if value is None else value[: 4 * MAX_NAME].decode(errors="replace")[:MAX_NAME]


def names_of(values: pa.Array) -> pa.DictionaryArray:
    """Dictionary-encode bytes as displayable names; null is the empty name."""
    encoded = values.cast(pa.binary()).dictionary_encode(null_encoding="encode")
    found = pa.array([text_of(value) for value in encoded.dictionary.to_pylist()], pa.string())
    return pa.DictionaryArray.from_arrays(encoded.indices.cast(pa.int32()), found)


def same_name(name: str, rows: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([name[:MAX_NAME]]))


def levels_of(codes: npt.NDArray[np.int8]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(LEVELS))


def codes_of(column: pa.DictionaryArray) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = column.indices.to_numpy(zero_copy_only=True)
    return found


def milliseconds(column: pa.Array) -> Longs:
    found: Longs = column.view(pa.int64()).to_numpy(zero_copy_only=True)
    return found


def together(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Merge batches into one, with one dictionary per name column."""
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).unify_dictionaries().combine_chunks().to_batches()[0]


def header_of(headers: pa.Array, name: str) -> pa.Array:
    """Value of each record's first header of this name, as bytes; null if missing."""
    pairs = pc.list_flatten(headers)
    wanted = pc.equal(pairs.field("key"), name)
    rows = pc.filter(pc.list_parent_indices(headers), wanted).to_numpy(zero_copy_only=False)
    values = pc.filter(pairs.field("value"), wanted)
    index = np.full(len(headers), -1, np.int64)
    index[rows[::-1]] = np.arange(len(rows) - 1, -1, -1)
    return values.take(pa.array(index, mask=index < 0))


# -- A row for display ---------------------------------------------------------------------------------

SHOWN_BYTES = 16 * 1024
"""Maximum size of a displayed message; the record page shows all of it."""


class LogLine(msgspec.Struct):
    time: int
    """Epoch milliseconds."""
    level: str
    host: str
    service: str
    source: str
    topic: str
    partition: int
    offset: int
    message: str
    row: int
    cut: bool = False
    """True if the message is truncated."""


def line_at(rows: pa.RecordBatch, index: int, row: int) -> LogLine:
    message = rows.column("message").view(pa.binary())[index].as_py()
    names = {name: rows.column(name)[index].as_py() for name in NAMES}
    return LogLine(
        time=int(milliseconds(rows.column("time"))[index]),
        level=rows.column("level")[index].as_py(),
        partition=rows.column("partition")[index].as_py(),
        offset=rows.column("offset")[index].as_py(),
        message=message[:SHOWN_BYTES].decode(errors="replace"),
        row=row,
        cut=len(message) > SHOWN_BYTES,
        **names,
    )
