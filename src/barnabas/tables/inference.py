"""Infer the schema of a topic from JSON values at its start and end. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec
import pyarrow as pa

SAMPLE = 1000  # records at the start, and as many at the end
DEEPEST = 16
RARE = 20  # a type in fewer than one of 20 values is rare

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def infer_fields(values: Iterable[bytes | None]) -> pa.Schema | None:
    """None if most values are not JSON objects."""
    seen: dict[str, Counter[pa.DataType]] = defaultdict(Counter)
    good = bad = 0
    for value in values:
        if value is None:
            continue
        try:
            found = _decode(value)
        except (msgspec.MsgspecError, RecursionError):
            bad += 1
            continue
        good += 1
        for name, content in found.items():
            seen[name][type_of(content)] += 1
    if not seen or bad > good:
        return None
    return pa.schema([(name, settled(_common(kinds))) for name, kinds in seen.items()])


def _common(kinds: Counter[pa.DataType]) -> pa.DataType:
    """Widest common type, ignoring rare types that would force STRING: such values do not match."""
    found, total = pa.null(), kinds.total()
    for kind, count in kinds.most_common():
        both = merge(found, kind)
        if both == pa.string() and found not in (pa.null(), pa.string()) and count * RARE < total:
            continue
        found = both
    return found


def type_of(content: Any, depth: int = 0) -> pa.DataType:
    """BIGINT, DOUBLE, BOOLEAN, STRING, ARRAY or STRUCT; text stays text, even if it looks like a timestamp."""
    if isinstance(content, bool):
        return pa.bool_()
    if isinstance(content, int):
        return pa.int64() if -(1 << 63) <= content < 1 << 63 else pa.float64()
    if isinstance(content, float):
        return pa.float64()
    if content is None:
        return pa.null()
    if depth < DEEPEST and isinstance(content, list):
        inner = pa.null()
        for item in content:
            inner = merge(inner, type_of(item, depth + 1))
        return pa.list_(pa.field("element", inner))
    if depth < DEEPEST and isinstance(content, dict) and content:
        return pa.struct([(name, type_of(item, depth + 1)) for name, item in content.items()])
    return pa.string()


def merge(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Common type of both: any value fits STRING, which keeps the JSON text."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if {one, other} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(pa.field("element", merge(one.value_type, other.value_type)))
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        fields = {field.name: field.type for field in one}
        for field in other:
            fields[field.name] = merge(fields.get(field.name, pa.null()), field.type)
        return pa.struct(list(fields.items()))
    return pa.string()


def settled(kind: pa.DataType) -> pa.DataType:
    """Replace the null type by STRING."""
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", settled(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, settled(field.type)) for field in kind])
    return kind
