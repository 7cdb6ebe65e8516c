"""A row as it is shown."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from barnabas.services.console.logs.columns import NAMES, milliseconds

SHOWN_BYTES = 16 * 1024
"""Of a message; the record itself is one click away."""


class LogLine(msgspec.Struct):
    time: int
    """Milliseconds since 1970."""
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
    """The message goes on."""


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
