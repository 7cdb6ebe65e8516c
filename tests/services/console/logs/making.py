"""Decoded records as input of the tailer, and a filled store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from barnabas.common.types import TopicPartition
from barnabas.records.columnar.decode import HEADERS, TIMESTAMP, RecordColumns
from barnabas.records.record import Header
from barnabas.services.console.logs.lines import rows_of
from barnabas.services.console.logs.store import LogStore, LogStoreSettings

NOW_MS = 1_795_000_000_000
TP = TopicPartition("app.logs", 0)
FILE_HEADERS: tuple[Header, ...] = (("host", b"web-1"), ("path", b"/var/log/shop.log"))


def columns_of(
    values: Sequence[bytes | None],
    headers: Sequence[Header] = FILE_HEADERS,
    *,
    key: bytes = b"web-1:/var/log/shop.log",
    first: int = 0,
    time: int = NOW_MS,
) -> RecordColumns:
    rows = len(values)
    pairs = [{"key": name, "value": value} for name, value in headers]
    return RecordColumns(
        rows,
        {
            "offset": pa.array(range(first, first + rows), pa.int64()),
            "timestamp": pa.array([time * 1000] * rows, pa.int64()).view(TIMESTAMP),
            "key": pa.array([key] * rows, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array([pairs] * rows, HEADERS),
        },
    )


def store_of(folder: Path, lines: Sequence[bytes], chunk_rows: int, time: int = NOW_MS) -> LogStore:
    """Lines in the order of their offsets, in files of `chunk_rows`; the last few are in memory."""
    store = LogStore(
        folder, LogStoreSettings(keep_seconds=1e9, chunk_rows=chunk_rows), clock=lambda: time / 1000
    )
    for first in range(0, len(lines), 7):
        columns = columns_of(lines[first : first + 7], first=first, time=time + first)
        store.add(TP.topic, "an id", TP.partition, rows_of(TP, columns))
        if store.is_due:
            store.flush()
    return store
