"""Converts records to rows: lines of `barnabas ingest files`, syslog messages, and entries of the `logs` pipeline.

The value of any other record is a line too, with time and level parsed from its beginning and its headers.
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

from barnabas.common.types import TopicPartition
from barnabas.records.columnar.decode import RecordColumns
from barnabas.services.console.logs.columns import (
    LEVELS,
    SCHEMA,
    Longs,
    codes_of,
    header_of,
    levels_of,
    milliseconds,
    names_of,
    same_name,
)
from barnabas.services.console.logs.json_lines import facts_in

# -- Time and level at the beginning of a line, parsed by RE2 for whole columns -------------------------

HEAD = 256
"""Bytes at the beginning of a line that are searched for its time and level."""

_TIME = (
    r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[T ](?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
    r"(?:[.,](?P<fraction>\d{1,3})\d*)?(?: ?(?:Z|(?P<sign>[+-])(?P<zone_hour>\d\d):?(?P<zone_minute>\d\d)))?"
)
_WORDS = {
    "trace": ("TRACE",),
    "debug": ("DEBUG",),
    "info": ("INFO", "NOTICE"),
    "warn": ("WARN", "WARNING"),
    "error": ("ERROR", "ERR", "SEVERE"),
    "fatal": ("FATAL", "CRITICAL", "CRIT", "PANIC", "ALERT", "EMERG"),
}
"""Level names of programs and of syslog (RFC 5424)."""
_LEVEL_OF = {word: LEVELS.index(level) for level, words in _WORDS.items() for word in words}
_ANY = "|".join(_LEVEL_OF)
_LEVEL = (
    rf"(?:^|[^A-Za-z0-9_])(?P<capital>{_ANY})(?:$|[^A-Za-z0-9_])"
    rf"|(?i:(?:level|lvl|severity)[\"']?\s*[=:]\s*[\"']?|\[)(?P<named>(?i:{_ANY}))(?:$|[^A-Za-z0-9_])"
)
"""In capitals anywhere; otherwise as `level=warn`, `"level": "warn"` or `[warn]`."""


def heads(lines: pa.Array) -> pa.Array:
    return pc.binary_slice(lines.view(pa.binary()), 0, HEAD).view(pa.string())


def times_in(texts: pa.Array) -> tuple[Longs, npt.NDArray[np.bool_]]:
    """First ISO 8601 time of each text in milliseconds, and a mask of texts that have one; UTC if it has no zone."""
    found = pc.extract_regex(texts, _TIME)
    valid = found.is_valid().to_numpy(zero_copy_only=False)
    if not valid.any():
        return np.zeros(len(texts), np.int64), valid
    fields = {name: found.field(name) for name in (each.name for each in found.type)}
    year, month, day, hour, minute, second = (
        _numbers(fields[name]) for name in ("year", "month", "day", "hour", "minute", "second")
    )
    months = ((year - 1970) * 12 + month - 1).astype("M8[M]")
    dates = months.astype("M8[D]") + (day - 1)
    possible = (month >= 1) & (month <= 12) & (day >= 1) & (hour < 24) & (minute < 60) & (second <= 60)
    possible &= dates.astype("M8[M]") == months  # no 30th of February
    seconds = ((dates.astype(np.int64) * 24 + hour) * 60 + minute) * 60 + second - _zones(fields)
    fraction = _numbers(pc.ascii_rpad(fields["fraction"], 3, "0"))
    return seconds * 1000 + fraction, valid & possible


def levels_in(texts: pa.Array) -> npt.NDArray[np.int8]:
    found = pc.extract_regex(texts, _LEVEL)
    capital, named = found.field("capital"), found.field("named")
    words = pc.if_else(pc.equal(pc.binary_length(capital), 0), named, capital)
    return levels_named(pc.if_else(found.is_valid(), words, ""))


def levels_named(words: pa.Array) -> npt.NDArray[np.int8]:
    """Level codes of single words, such as syslog severities; null and unknown words are `none`."""
    encoded = words.cast(pa.binary()).dictionary_encode(null_encoding="encode")
    codes = [_code_of(word) for word in encoded.dictionary.to_pylist()]
    taken: npt.NDArray[np.int8] = np.array(codes or [0], np.int8)[
        encoded.indices.to_numpy(zero_copy_only=False)
    ]
    return taken


def _code_of(word: bytes | None) -> int:
    return 0 if word is None else _LEVEL_OF.get(word[:16].decode("ascii", "replace").upper(), 0)


def _zones(fields: dict[str, pa.Array]) -> Longs:
    """UTC offsets in seconds."""
    east = _numbers(fields["zone_hour"]) * 3600 + _numbers(fields["zone_minute"]) * 60
    west = pc.equal(fields["sign"], "-").fill_null(False).to_numpy(zero_copy_only=False)
    return np.where(west, -east, east)


def _numbers(digits: pa.Array) -> Longs:
    """Parse digits; missing parts are 0."""
    there = pc.if_else(pc.equal(pc.binary_length(digits), 0), "0", digits).fill_null("0")
    numbers: Longs = there.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers


WANTED = ("offset", "timestamp", "key", "value", "headers")
"""Required columns of a decoded batch."""
LEVEL_TOPIC = re.compile(r"logs\.(trace|debug|info|warn|error|fatal)")
"""Topics of the template `logs`."""
AHEAD_MS = 5 * 60 * 1000
"""Tolerated clock skew. A line further ahead of its record, as with a wrong zone, gets the time of the record."""


class _Syslog(msgspec.Struct, forbid_unknown_fields=True):
    """JSON that `barnabas ingest syslog` writes."""

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
    """JSON that the template `logs` writes."""

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
    """Columns of all rows: text as in the records, null if unknown."""

    message: pa.Array
    time: pa.Array
    level: pa.Array
    host: pa.Array
    service: pa.Array
    source: pa.Array


T = TypeVar("T", _Syslog, _Entry)


def rows_of(tp: TopicPartition, columns: RecordColumns) -> pa.RecordBatch:
    """Convert a decoded batch to rows, skipping tombstones."""
    arrays = columns.arrays
    if arrays["value"].null_count:
        there = arrays["value"].is_valid()
        arrays = {name: array.filter(there) for name, array in arrays.items()}
    facts = _facts(tp, arrays)
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
        same_name(tp.topic, rows),
        pa.array(np.full(rows, tp.partition, np.int32)),
        arrays["offset"],
        text,
    ]
    return pa.RecordBatch.from_arrays(columns_in_order, schema=SCHEMA)


def _facts(tp: TopicPartition, arrays: Mapping[str, pa.Array]) -> _Facts:
    headers, values = arrays["headers"], arrays["value"]
    if LEVEL_TOPIC.fullmatch(tp.topic):
        return _of_entries([_decoded(value, _Entry) for value in values.to_pylist()], arrays)
    if _has(headers, "peer") and not _has(headers, "parsed"):
        return _of_syslog([_decoded(value, _Syslog) for value in values.to_pylist()], arrays)
    path, level = header_of(headers, "path"), header_of(headers, "severity")
    services = [header_of(headers, "service"), header_of(headers, "app")]
    if (named := facts_in(values)) is not None:
        level = pc.coalesce(level, named[0])
        services.append(named[1])
    return _Facts(
        values,
        pa.nulls(len(values), pa.binary()),
        level,
        header_of(headers, "host"),
        pc.coalesce(*services, _file_names(path)),
        pc.coalesce(path, arrays["key"]),
    )


def _has(headers: pa.Array, name: str) -> bool:
    return header_of(headers.slice(0, 1), name).null_count == 0 if len(headers) else False


def _decoded(value: bytes, kind: type[T]) -> T | None:
    """None for JSON of another shape, written by other producers."""
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
    """Message text with structured data appended as JSON, so that it can be searched."""
    return (
        f"{message.message} {msgspec.json.encode(message.data).decode()}" if message.data else message.message
    )


def _host_and_path(source: str | None) -> tuple[str | None, str | None]:
    """Split a record key. Agents write `host:/path`; any other key is the name of a program."""
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
    notified, is_told = times_in(facts.time.view(pa.string()))
    read, is_read = times_in(beginnings)
    has_time = is_told | is_read
    times = np.where(is_told, notified, np.where(is_read, read, recorded))
    times = np.where(times > recorded + AHEAD_MS, recorded, times)
    return _of_the_line_above(times, has_time, sources)


def _of_the_line_above(times: Longs, has_time: npt.NDArray[np.bool_], sources: npt.NDArray[Any]) -> Longs:
    """Fill in missing times, as in a stack trace, with the time of the preceding line of the same file."""
    if not has_time.any() or has_time.all():
        return times
    above = np.maximum.accumulate(np.where(has_time, np.arange(len(times)), -1))
    follows = (above >= 0) & (sources[above] == sources)
    return np.where(follows, times[above], times)


def _levels(facts: _Facts, beginnings: pa.Array) -> npt.NDArray[np.int8]:
    notified = levels_named(facts.level)
    return notified if notified.all() else np.where(notified > 0, notified, levels_in(beginnings))
