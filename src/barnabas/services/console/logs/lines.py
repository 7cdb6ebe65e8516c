"""Records become rows: lines that `barnabas ingest files` took, messages of syslog, entries of the `logs` pipeline.

Any other record is a line, too: its value as it is, with what its beginning and its headers tell.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.services.console.logs.columns import (
    SCHEMA,
    Longs,
    codes_of,
    header_of,
    levels_of,
    milliseconds,
    names_of,
    same_name,
)
from barnabas.services.console.logs.reading_lines import heads, levels_in, levels_named, times_in
from barnabas.records.columnar.decode import Columns
from barnabas.common.types import TopicPartition

WANTED = ("offset", "timestamp", "key", "value", "headers")
"""Columns of a decoded batch that are needed here."""
LEVEL_TOPIC = re.compile(r"logs\.(trace|debug|info|warn|error|fatal)")
"""Where the template `logs` writes entries."""
AHEAD_MS = 5 * 60 * 1000
"""A line was written before its record. One whose clock, or whose zone, says otherwise has the time of its record."""


class _Syslog(msgspec.Struct, forbid_unknown_fields=True):
    """What `barnabas ingest syslog` writes as JSON."""

    message: str = ""
    time: str | None = None
    host: str | None = None
    facility: str | None = None
    severity: str | None = None
    app: str | None = None
    procid: str | None = None
    msgid: str | None = None
    data: dict[str, msgspec.Raw] = {}
    parsed: bool = True
    truncated: bool = False


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    """What the template `logs` writes."""

    source: str
    level: str
    message: str
    time: str | None = None
    lines: int = 1
    omitted_lines: int = 0
    omitted_bytes: int = 0
    partition: int = 0
    offset: int = 0


class _Facts(NamedTuple):
    """Of all rows: text as it is in records, null where nothing is told."""

    message: pa.Array
    time: pa.Array
    level: pa.Array
    host: pa.Array
    service: pa.Array
    source: pa.Array


T = TypeVar("T", _Syslog, _Entry)


def rows_of(place: TopicPartition, columns: Columns) -> pa.RecordBatch:
    """Tombstones are left out."""
    arrays = columns.arrays
    if arrays["value"].null_count:
        there = arrays["value"].is_valid()
        arrays = {name: array.filter(there) for name, array in arrays.items()}
    facts = _facts(place, arrays)
    rows = len(facts.message)
    text = facts.message.view(pa.string())
    beginnings = heads(text)
    names = [names_of(each) for each in (facts.host, facts.service, facts.source)]
    columns_in_order = [
        pa.array(
            _times(facts, beginnings, arrays["timestamp"], codes_of(names[-1])), SCHEMA.field("time").type
        ),
        levels_of(_levels(facts, beginnings)),
        *names,
        same_name(place.topic, rows),
        pa.array(np.full(rows, place.partition, np.int32)),
        arrays["offset"],
        text,
    ]
    return pa.RecordBatch.from_arrays(columns_in_order, schema=SCHEMA)


def _facts(place: TopicPartition, arrays: Mapping[str, pa.Array]) -> _Facts:
    headers, values = arrays["headers"], arrays["value"]
    if LEVEL_TOPIC.fullmatch(place.topic):
        return _of_entries([_decoded(value, _Entry) for value in values.to_pylist()], arrays)
    if _has(headers, "peer") and not _has(headers, "parsed"):
        return _of_syslog([_decoded(value, _Syslog) for value in values.to_pylist()], arrays)
    path = header_of(headers, "path")
    return _Facts(
        values,
        pa.nulls(len(values), pa.binary()),
        header_of(headers, "severity"),
        header_of(headers, "host"),
        pc.coalesce(header_of(headers, "service"), header_of(headers, "app"), _file_names(path)),
        pc.coalesce(path, arrays["key"]),
    )


def _has(headers: pa.Array, name: str) -> bool:
    return header_of(headers.slice(0, 1), name).null_count == 0 if len(headers) else False


def _decoded(value: bytes, kind: type[T]) -> T | None:
    """None: somebody else writes to this topic, too."""
    try:
        return msgspec.json.decode(value, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _of_entries(entries: list[_Entry | None], arrays: Mapping[str, pa.Array]) -> _Facts:
    sources = [None if each is None else each.source for each in entries]
    hosts = [_host_and_path(source) for source in sources]
    return _Facts(
        _column([None if each is None else each.message for each in entries], arrays["value"]),
        _column([None if each is None else each.time for each in entries]),
        _column([None if each is None else each.level for each in entries]),
        _column([host for host, _ in hosts]),
        _column([None if path is None else posixpath.basename(path) for _, path in hosts]),
        _column(sources, arrays["key"]),
    )


def _of_syslog(messages: list[_Syslog | None], arrays: Mapping[str, pa.Array]) -> _Facts:
    return _Facts(
        _column([None if each is None else _whole(each) for each in messages], arrays["value"]),
        _column([None if each is None else each.time for each in messages]),
        _column([None if each is None else each.severity for each in messages]),
        _column([None if each is None else each.host for each in messages], arrays["key"]),
        _column([None if each is None else each.app for each in messages]),
        arrays["key"],
    )


def _whole(message: _Syslog) -> str:
    """Structured data can be searched as the JSON that they are in the record."""
    return (
        f"{message.message} {msgspec.json.encode(message.data).decode()}" if message.data else message.message
    )


def _host_and_path(source: str | None) -> tuple[str | None, str | None]:
    """`host:/path` is what an agent gives lines as a key; any other key names a program on some host."""
    if source is None:
        return None, None
    host, _, path = source.partition(":")
    return (host, path) if path.startswith("/") else (source, None)


def _file_names(paths: pa.Array) -> pa.Array:
    encoded = paths.dictionary_encode()
    names = [None if path is None else posixpath.basename(path) for path in encoded.dictionary.to_pylist()]
    return pa.array(names, pa.binary()).take(encoded.indices)


def _column(values: list[str | None], otherwise: pa.Array | None = None) -> pa.Array:
    found = pa.array(values, pa.string()).view(pa.binary())
    return found if otherwise is None else pc.coalesce(found, otherwise)


def _times(facts: _Facts, beginnings: pa.Array, stamps: pa.Array, sources: npt.NDArray[Any]) -> Longs:
    recorded = milliseconds(stamps) // 1000
    told, is_told = times_in(facts.time.view(pa.string()))
    read, is_read = times_in(beginnings)
    has_time = is_told | is_read
    times = np.where(is_told, told, np.where(is_read, read, recorded))
    times = np.where(times > recorded + AHEAD_MS, recorded, times)
    return _of_the_line_above(times, has_time, sources)


def _of_the_line_above(times: Longs, has_time: npt.NDArray[np.bool_], sources: npt.NDArray[Any]) -> Longs:
    """A line that tells no time, as in a stack trace, was written with the line above it in its file."""
    if not has_time.any() or has_time.all():
        return times
    above = np.maximum.accumulate(np.where(has_time, np.arange(len(times)), -1))
    follows = (above >= 0) & (sources[above] == sources)
    return np.where(follows, times[above], times)


def _levels(facts: _Facts, beginnings: pa.Array) -> npt.NDArray[np.int8]:
    told = levels_named(facts.level)
    return told if told.all() else np.where(told > 0, told, levels_in(beginnings))
