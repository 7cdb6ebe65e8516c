"""Writes records as JSON lines, CSV or Parquet, oldest first, streamed as they are read."""

from __future__ import annotations

import base64
import csv
import io
import time
from collections.abc import AsyncIterator
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from barnabas.client import Client
from barnabas.client.offsets import OffsetRange
from barnabas.records.columnar.decode import HEADERS, TIMESTAMP, RecordColumns
from barnabas.services.console.scanning.messages import ExportJob
from barnabas.services.console.scanning.model import RECORD_NOT_FOUND, RawRecord, Search, SearchError
from barnabas.services.console.scanning.worker.reader import forwards
from barnabas.services.console.scanning.worker.searching import Looker, as_rows
from barnabas.services.console.scanning.worker.showing import Schemas

QUIET_SECONDS = 1.0
VALUE_CHUNK = 1 << 20
MAX_RAW = 32 << 20
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NAMES = ("partition", "offset", "timestamp", "key", "value", "headers")
_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)


class ExportWriter(Protocol):
    def write(self, columns: RecordColumns, partition: int) -> bytes: ...

    def close(self) -> bytes: ...


async def export(
    client: Client, job: ExportJob, ranges: list[OffsetRange], schemas: Schemas | None
) -> AsyncIterator[bytes]:
    """Yield the file in chunks, with matching records up to the search's limit."""
    looker, writer = Looker(job.search, schemas), _WRITERS[job.format]()
    left, notified = job.search.limit, time.monotonic()
    async for section in forwards(client, ranges, job.search.committed, lambda what: None):
        partition = section.tp.partition
        for part in section.parts():
            if left <= 0:
                break
            _, _, columns = await looker.take_later(part, partition, left)
            left -= columns.rows
            data = writer.write(columns, partition) if columns.rows else b""
            if data or time.monotonic() - notified > QUIET_SECONDS:
                notified = time.monotonic()
                yield data  # may be empty: a disconnected client is noticed only by sending
        if left <= 0:
            break
    yield writer.close()


async def whole_value(client: Client, search: Search, ranges: list[OffsetRange]) -> AsyncIterator[bytes]:
    """Yield the value of one record in chunks."""
    async for section in forwards(client, ranges, search.committed, lambda what: None):
        for part in section.parts():
            for value in part.columns({"value"}).arrays["value"].to_pylist():
                for at in range(0, len(value or b""), VALUE_CHUNK):
                    yield value[at : at + VALUE_CHUNK]
                return
    raise SearchError(RECORD_NOT_FOUND)


async def raw_record(client: Client, search: Search, ranges: list[OffsetRange]) -> AsyncIterator[bytes]:
    """Yield one complete record, encoded as a RawRecord."""
    async for section in forwards(client, ranges, search.committed, lambda what: None):
        for part in section.parts():
            columns = part.columns({"key", "value", "headers"})
            if columns.rows:
                yield msgspec.msgpack.encode(_raw(columns))
                return
    raise SearchError(RECORD_NOT_FOUND)


def _raw(columns: RecordColumns) -> RawRecord:
    key, value = (columns.arrays[name][0].as_py() for name in ("key", "value"))
    if len(key or b"") + len(value or b"") > MAX_RAW:
        raise SearchError(f"this record is larger than {MAX_RAW >> 20} MiB: copy it with `barnabas consume`")
    pairs = columns.arrays["headers"].values
    names, values = pairs.field("key").view(pa.binary()).to_pylist(), pairs.field("value").to_pylist()
    return RawRecord(key, value, list(zip(names, values, strict=True)))


class _JsonLines:
    """Same format as `barnabas consume --output json`: invalid UTF-8 goes to `key_base64` or `value_base64`."""

    def write(self, columns: RecordColumns, partition: int) -> bytes:
        rows = [_document(row, partition) for row in as_rows(columns)]
        return msgspec.json.Encoder().encode_lines(rows)

    def close(self) -> bytes:
        return b""


class _Csv:
    """Cells that a spreadsheet would parse as a formula are prefixed with an apostrophe."""

    def __init__(self) -> None:
        self._head = True

    def write(self, columns: RecordColumns, partition: int) -> bytes:
        text = io.StringIO()
        writer = csv.writer(text)
        if self._head:
            writer.writerow(_NAMES)
            self._head = False
        for row in as_rows(columns):
            pairs = {pair["key"]: _cell(pair["value"]) for pair in row["headers"]}
            headers = msgspec.json.encode(pairs).decode() if pairs else ""
            cells = (_cell(row["key"]), _cell(row["value"]), headers)
            writer.writerow([partition, row["offset"], row["timestamp"], *map(safe_cell, cells)])
        return text.getvalue().encode()

    def close(self) -> bytes:
        return b"" if not self._head else ",".join(_NAMES).encode() + b"\r\n"


class _Parquet:
    def __init__(self) -> None:
        import pyarrow.parquet as pq  # here to keep the start of the process fast

        self._out = io.BytesIO()
        self._writer = pq.ParquetWriter(self._out, _SCHEMA, compression="zstd")

    def write(self, columns: RecordColumns, partition: int) -> bytes:
        arrays = {**columns.arrays, "partition": pa.array([partition] * columns.rows, pa.int32())}
        table = pa.table([arrays[name] for name in _NAMES], schema=_SCHEMA)
        self._writer.write_table(table)
        return self._written()

    def close(self) -> bytes:
        self._writer.close()
        return self._written()

    def _written(self) -> bytes:
        data = self._out.getvalue()
        self._out.seek(0)
        self._out.truncate()
        return data


_WRITERS: dict[str, type[ExportWriter]] = {"json": _JsonLines, "csv": _Csv, "parquet": _Parquet}


def safe_cell(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text


def _cell(data: bytes | None) -> str:
    if data is None:
        return ""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()


def _document(row: dict[str, Any], partition: int) -> dict[str, Any]:
    headers = [{"name": pair["key"], **_json_bytes("value", pair["value"])} for pair in row["headers"]]
    return {
        "partition": partition,
        "offset": row["offset"],
        "timestamp": row["timestamp"],
        **_json_bytes("key", row["key"]),
        **_json_bytes("value", row["value"]),
        "headers": headers,
    }


def _json_bytes(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}
