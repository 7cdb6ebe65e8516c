"""Masks fields before any other processing, so that masked data can be neither seen nor searched."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.records.columnar.decode import HEADERS, RecordColumns
from barnabas.services.console.scanning.model import HIDDEN, HIDDEN_BYTES, RecordMask

ANY, ANY_DEPTH = "*", "**"

Path = tuple[str, ...]
Decode = Callable[[bytes], Any]


class Masking:
    """Masks the records of one search. `decode` parses a value, and raises ValueError if it cannot."""

    def __init__(self, masks: Iterable[RecordMask], decode: Decode) -> None:
        masks = tuple(masks)
        self._decode = decode
        self._paths = tuple(tuple(path.split(".")) for mask in masks for path in mask.fields)
        self._headers = sorted({name for mask in masks for name in mask.headers})
        self._key = any(mask.key for mask in masks)

    def __bool__(self) -> bool:
        return bool(self._paths or self._headers or self._key)

    @property
    def hides_value(self) -> bool:
        return bool(self._paths)

    def apply(self, columns: RecordColumns) -> RecordColumns:
        arrays = dict(columns.arrays)
        if self._key and "key" in arrays:
            arrays["key"] = _hidden(arrays["key"])
        if self._paths and "value" in arrays:
            arrays["value"] = pa.array(map(self._value, arrays["value"].to_pylist()), pa.binary())
        if self._headers and "headers" in arrays:
            arrays["headers"] = self._masked_headers(arrays["headers"])
        return RecordColumns(columns.rows, arrays)

    def _value(self, value: bytes | None) -> bytes | None:
        if value is None:
            return None
        try:
            found = self._decode(value)
        except Exception:  # any decoder error: values that cannot be inspected are hidden
            return HIDDEN_BYTES
        if not isinstance(found, dict | list):
            return HIDDEN_BYTES
        return msgspec.json.encode(hide(found, self._paths), enc_hook=str)

    def _masked_headers(self, headers: pa.Array) -> pa.Array:
        pairs = headers.values
        names, values = pairs.field("key"), pairs.field("value")
        chosen = pc.and_(pc.is_in(names, pa.array(self._headers, names.type)), values.is_valid())
        values = pc.if_else(chosen, pa.scalar(HIDDEN_BYTES, values.type), values)
        masked = pa.StructArray.from_arrays([names, values], fields=list(HEADERS.value_type))
        return pa.Array.from_buffers(
            HEADERS,
            len(headers),
            headers.buffers()[:2],
            headers.null_count,
            headers.offset,
            children=[masked],
        )


def hide(value: Any, paths: tuple[Path, ...]) -> Any:
    """Return a copy of the value with the fields at the paths hidden; lists are traversed.

    A value of unexpected shape cannot evade the mask: a non-object in the position of an object is hidden, and a path
    without a match hides fields with its last name at any depth.
    """
    if not paths:
        return value
    return _hidden_leaf(value) if not isinstance(value, dict | list) else _hide_both(value, paths)


def _hide_both(value: Any, paths: tuple[Path, ...]) -> Any:
    hiding = _Hiding()
    hidden = hiding.hide(value, {(path, path) for path in paths}, is_top=True)
    names = [next((each for each in reversed(path) if each not in (ANY, ANY_DEPTH)), ANY) for path in paths]
    lost: list[Path] = [
        (ANY_DEPTH, name) for path, name in zip(paths, names, strict=True) if path not in hiding.met
    ]
    return hiding.hide(hidden, {(path, path) for path in lost}) if lost else hidden


Goal = tuple[Path, Path]
"""A path and its remaining names."""


class _Hiding:
    """Hides fields by path; `met` collects the paths that matched."""

    def __init__(self) -> None:
        self.met: set[Path] = set()

    def hide(self, value: Any, goals: set[Goal], *, is_top: bool = False) -> Any:
        if isinstance(value, list):
            return [self.hide(item, goals, is_top=is_top) for item in value]
        if not isinstance(value, dict):
            expecting = {path for path, rest in goals if _expects_object(path, rest)}
            self.met |= expecting
            return _hidden_leaf(value) if is_top or expecting else value
        return {name: self._inner(inner, _behind(str(name), goals)) for name, inner in value.items()}

    def _inner(self, value: Any, goals: set[Goal]) -> Any:
        reached = {path for path, rest in goals if not rest}
        self.met |= reached
        if reached:
            return HIDDEN
        return self.hide(value, goals) if goals else value


def _expects_object(path: Path, rest: Path) -> bool:
    """True below a field named by the path: `*.email` applies only to fields that are objects."""
    return rest[0] != ANY_DEPTH and len(rest) < len(path) and path[-len(rest) - 1] not in (ANY, ANY_DEPTH)


def _hidden_leaf(value: Any) -> Any:
    """Hide a scalar; null stays null."""
    return None if value is None else HIDDEN


def _behind(name: str, goals: set[Goal]) -> set[Goal]:
    """Remaining paths below a field. A name with dots may also match several nested fields."""
    found = _step(name, goals)
    if "." in name:
        several = goals
        for part in name.split("."):
            several = _step(part, several)
        found |= several
    return found


def _step(name: str, goals: set[Goal]) -> set[Goal]:
    found: set[Goal] = set()
    for path, rest in goals:
        if rest and rest[0] == ANY_DEPTH:
            found.add((path, rest))
            rest = rest[1:]
        if rest and rest[0] in (name, ANY):
            found.add((path, rest[1:]))
    return found


def _hidden(column: pa.Array) -> pa.Array:
    hidden = np.full(len(column), HIDDEN_BYTES, object)
    return pa.array(hidden, column.type, mask=column.is_null().to_numpy(zero_copy_only=False))
