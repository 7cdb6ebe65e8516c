"""Hides fields before anything else looks at a record: what is hidden can be neither seen nor searched for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.services.console.scanning.model import Mask
from barnabas.records.columnar.decode import HEADERS, Columns

HIDDEN = "*****"
HIDDEN_BYTES = HIDDEN.encode()
ANY, ANY_DEPTH = "*", "**"

Path = tuple[str, ...]
Decode = Callable[[bytes], Any]


class Masking:
    """Of the records of one search. `decode` makes objects of values and raises ValueError for what is none."""

    def __init__(self, masks: Iterable[Mask], decode: Decode) -> None:
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

    def apply(self, columns: Columns) -> Columns:
        arrays = dict(columns.arrays)
        if self._key and "key" in arrays:
            arrays["key"] = _hidden(arrays["key"])
        if self._paths and "value" in arrays:
            arrays["value"] = pa.array(map(self._value, arrays["value"].to_pylist()), pa.binary())
        if self._headers and "headers" in arrays:
            arrays["headers"] = self._masked_headers(arrays["headers"])
        return Columns(columns.rows, arrays)

    def _value(self, value: bytes | None) -> bytes | None:
        if value is None:
            return None
        try:
            found = self._decode(value)
        except Exception:  # whatever a library says: what cannot be looked into is hidden
            return HIDDEN_BYTES
        if not isinstance(found, (dict, list)):
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
    """A copy of the value in which what the paths lead to is hidden; lists are stepped through."""
    if isinstance(value, list):
        return [hide(item, paths) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: _inner(inner, _behind(str(name), paths)) for name, inner in value.items()}


def _inner(value: Any, paths: tuple[Path, ...]) -> Any:
    if not paths:
        return value
    return HIDDEN if () in paths else hide(value, paths)


def _behind(name: str, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    found: list[Path] = []
    for path in paths:
        if path[0] == ANY_DEPTH:
            found.append(path)
            path = path[1:]
        if path and path[0] in (name, ANY):
            found.append(path[1:])
    return tuple(dict.fromkeys(found))


def _hidden(column: pa.Array) -> pa.Array:
    hidden = np.full(len(column), HIDDEN_BYTES, object)
    return pa.array(hidden, column.type, mask=column.is_null().to_numpy(zero_copy_only=False))
