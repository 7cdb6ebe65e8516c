"""Binary columns as text of one line a value."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barnabas.records.columnar.line_kernels import join_lines


def lines_of(values: pa.Array, *, json: bool, empty_row: bytes) -> tuple[pa.Buffer, npt.NDArray[np.bool_]]:
    """(the text, which values are no row): JSON objects or CSV lines; nulls and bad ones are `empty_row`."""
    rows = len(values)
    _, offsets_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[values.offset : values.offset + rows + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    null = np.zeros(rows, np.uint8)
    if values.null_count:
        null = values.is_null().to_numpy(zero_copy_only=False).astype(np.uint8)
    lines = np.empty(int(offsets[-1] - offsets[0]) + rows * (len(empty_row) + 1), np.uint8)
    bad = np.zeros(rows, np.uint8)
    written = join_lines(offsets, data, null, np.frombuffer(empty_row, np.uint8), json, lines, bad)
    return pa.py_buffer(lines[:written]), bad.astype(np.bool_)
