"""Filters records as a mask over columns: cheap tests first, later tests only on the remaining rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.client.schemas.client import PREFIX
from barnabas.filters import Filter
from barnabas.filters.layout import Decode
from barnabas.filters.vectors import as_text, quoted
from barnabas.records.columnar.decode import RecordColumns
from barnabas.services.console.scanning.model import Search

Flags = npt.NDArray[np.bool_]
Arrays = Mapping[str, pa.Array]


class Test(NamedTuple):
    sources: set[str]
    flags: Callable[[Arrays, int], Flags]


class Matcher:
    """Tests of one search. `decode_value` decodes values with a schema id; None without a registry."""

    def __init__(self, search: Search, decode_value: Decode | None = None) -> None:
        self._filters: list[Filter] = []
        self._tests = [*_times(search), *_keys(search), *_headers(search), *_texts(search)]
        if search.where:
            self._tests.append(self._where(search.where, decode_value))

    @property
    def sources(self) -> set[str]:
        """Columns that the tests read."""
        return {name for test in self._tests for name in test.sources}

    @property
    def failures(self) -> int:
        return sum(one.failures.count for one in self._filters)

    @property
    def failure(self) -> str:
        return next((one.failures.first for one in self._filters if one.failures.first), "")

    def rows(self, columns: RecordColumns, partition: int) -> npt.NDArray[np.intp]:
        """Return the matching rows, in order."""
        found = np.arange(columns.rows)
        arrays: dict[str, pa.Array] = dict(columns.arrays)
        if "partition" in self.sources:
            arrays["partition"] = pa.array(np.full(columns.rows, partition, np.int32))
        for test in self._tests:
            if not len(found):
                break
            flags = test.flags(arrays, len(found))
            if flags.all():
                continue
            found = found[flags]
            chosen = pa.array(flags)
            arrays = {name: array.filter(chosen) for name, array in arrays.items()}
        return found

    def _where(self, text: str, decode_value: Decode | None) -> Test:
        plain = Filter(text)
        self._filters.append(plain)
        if decode_value is None or "value" not in plain.sources:
            return Test(plain.sources, plain.mask)
        framed = Filter(text, decode_value)
        self._filters.append(framed)
        return Test(plain.sources, lambda arrays, rows: _either(plain, framed, arrays, rows))


def _either(plain: Filter, framed: Filter, arrays: Arrays, rows: int) -> Flags:
    """Decode values with a schema id by their schema, others as JSON."""
    with_id = begins_with_id(arrays["value"])
    if not with_id.any():
        return plain.mask(arrays, rows)
    found = np.zeros(rows, np.bool_)
    for which, chosen in ((plain, ~with_id), (framed, with_id)):
        taken = {name: array.filter(pa.array(chosen)) for name, array in arrays.items()}
        found[chosen] = which.mask(taken, int(chosen.sum()))
    return found


def begins_with_id(values: pa.Array) -> Flags:
    """Flag values of at least five bytes whose first byte is zero."""
    _, offsets_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[values.offset : values.offset + len(values) + 1]
    found: Flags = np.diff(offsets) >= PREFIX
    if data_buffer is not None and found.any():
        data = np.frombuffer(data_buffer, np.uint8)
        found[found] = data[offsets[:-1][found]] == 0
    return found


def _times(search: Search) -> list[Test]:
    since, until = search.since, search.until
    if since is None and until is None:
        return []

    def flags(arrays: Arrays, rows: int) -> Flags:
        timestamps = arrays["timestamp"].view(pa.int64()).to_numpy() // 1000
        found = np.ones(rows, np.bool_)
        if since is not None:
            found &= timestamps >= since
        if until is not None:
            found &= timestamps < until
        return found

    return [Test({"timestamp"}, flags)]


def _keys(search: Search) -> list[Test]:
    if not search.key:
        return []
    same = _equals(search.key)
    return [Test({"key"}, lambda arrays, rows: same(arrays["key"]))]


def _headers(search: Search) -> list[Test]:
    if not search.header:
        return []
    name, equals, value = search.header.partition("=")
    named, valued = _equals(name), _equals(value) if equals else None

    def flags(arrays: Arrays, rows: int) -> Flags:
        lists = arrays["headers"]
        pairs = lists.values
        found = named(pairs.field("key"))
        if valued is not None:
            found &= valued(pairs.field("value"))
        before = np.concatenate([[0], np.cumsum(found)])
        offsets = lists.offsets.to_numpy()
        return np.asarray(before[offsets[1:]] > before[offsets[:-1]], np.bool_)

    return [Test({"headers"}, flags)]


def _texts(search: Search) -> list[Test]:
    if not search.find:
        return []
    pattern = search.find if search.regex else quoted(search.find.encode())

    def contains(column: pa.Array) -> Flags:
        found = pc.match_substring_regex(as_text(column), pattern, ignore_case=search.ignore_case)
        return _flags(found)

    return [Test({"key", "value"}, lambda arrays, rows: contains(arrays["value"]) | contains(arrays["key"]))]


def _equals(wanted: str) -> Callable[[pa.Array], Flags]:
    if "*" not in wanted:
        return lambda column: _flags(
            pc.equal(column, pa.scalar(wanted.encode(), pa.binary()).cast(column.type))
        )
    # RE2's dot matches a character, and these bytes need not be UTF-8: \C matches any byte.
    pattern = r"\A" + r"\C*".join(quoted(part.encode()) for part in wanted.split("*")) + r"\z"
    return lambda column: _flags(pc.match_substring_regex(as_text(column), pattern))


def _flags(found: Any) -> Flags:
    return np.asarray(found.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)
