"""JSON: a column of any type as JSON text, with the members that a JSON Schema allows.

Bytes become base64, dates and times ISO 8601 text, decimals numbers. JSON has no NaN and no infinity: they become null.
A null of a member that may be absent, but not null, is left out.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.tables.encoding.fragments import Encode, constant, flattened, gathered, joined, valid_where
from barnabas.tables.errors import BadValueError, SchemaError

_ESCAPED = r'["\\\x00-\x1f]'
NULL = constant(b"null")


def json_encoder(schema: Any, kind: pa.DataType, where: str = "") -> Encode:
    """Encoder of values of `kind`. Types are compared with the schema as far as it names them."""
    types = pa.types
    node = _node(schema)
    _check(node, kind, where)
    if types.is_struct(kind):
        return _object(node, kind, where)
    if types.is_list(kind):
        return _list(json_encoder(node.get("items", {}), kind.value_type, f"{where}[]"))
    if types.is_map(kind):
        if not types.is_string(kind.key_type):
            raise SchemaError(f"{where or 'the value'} is {kind}: names of JSON are text")
        return _map(json_encoder(node.get("additionalProperties", {}), kind.item_type, f"{where}{{}}"))
    return _scalar(kind, where)


def _node(schema: Any) -> dict[str, Any]:
    """The schema without the alternative null."""
    if not isinstance(schema, dict):
        return {}
    for name in ("oneOf", "anyOf"):
        others = [one for one in schema.get(name, ()) if one != {"type": "null"}]
        if len(others) == 1:
            return _node(others[0])
    return schema


def _types_of(schema: Any) -> set[str] | None:
    """Names of the types that a schema allows; None if it does not say."""
    if not isinstance(schema, dict):
        return None
    for name in ("oneOf", "anyOf"):
        found = [_types_of(one) for one in schema.get(name, ())]
        if found and None not in found:
            return set[str]().union(*(one for one in found if one is not None))
    kind = schema.get("type")
    if kind is None:
        return None
    return set(kind) if isinstance(kind, list) else {kind}


def _check(node: dict[str, Any], kind: pa.DataType, where: str) -> None:
    allowed = _types_of(node)
    if allowed is not None and not allowed & _names_of(kind):
        expected = " or ".join(sorted(allowed))
        raise SchemaError(f"{where or 'the value'} is {kind}, and the schema has {expected}")


def _names_of(kind: pa.DataType) -> set[str]:
    types = pa.types
    if types.is_boolean(kind):
        return {"boolean"}
    if types.is_integer(kind):
        return {"integer", "number"}
    if types.is_floating(kind) or types.is_decimal(kind):
        return {"number"}
    if types.is_struct(kind) or types.is_map(kind):
        return {"object"}
    return {"array"} if types.is_list(kind) else {"string"}


def _object(node: dict[str, Any], kind: pa.StructType, where: str) -> Encode:
    properties, required = node.get("properties", {}), set(node.get("required", ()))
    if node.get("additionalProperties") is False:
        extra = [field.name for field in kind if field.name not in properties]
        if extra:
            raise SchemaError(f"the schema has no property {'.'.join(filter(None, (where, extra[0])))}")
    missing = sorted(required - {field.name for field in kind})
    if missing:
        raise SchemaError(f"the schema requires the property {missing[0]}, which the rows do not have")
    members = [_member(index, kind, properties, required, where) for index in range(kind.num_fields)]

    def encode(column: pa.Array) -> pa.Array:
        if not members:
            return valid_where(pa.repeat(constant(b"{}"), len(column)), column)
        found = [member(column) for member in members]
        body = pc.binary_join_element_wise(*found, constant(b","), null_handling="skip")
        return valid_where(joined(constant(b"{"), body, constant(b"}")), column)

    return encode


def _member(index: int, kind: pa.StructType, properties: Any, required: set[str], where: str) -> Encode:
    field = kind.field(index)
    schema = properties.get(field.name, {})
    path = f"{where}.{field.name}" if where else field.name
    encode = json_encoder(schema, field.type, path)
    name = constant(msgspec.json.encode(field.name) + b":")
    allowed = _types_of(schema)
    takes_null = allowed is None or "null" in allowed

    def member(column: pa.Array) -> pa.Array:
        encoded = encode(pc.struct_field(column, index))
        if takes_null:
            return joined(name, pc.fill_null(encoded, NULL))
        if field.name in required and encoded.null_count > column.null_count:
            raise BadValueError(f"{path} is null in a row, and the schema requires a value")
        return joined(name, encoded)

    return member


def _list(item: Encode) -> Encode:
    def encode(column: pa.Array) -> pa.Array:
        offsets, items = flattened(column)
        body = gathered(offsets, joined(_commas(offsets, len(items)), pc.fill_null(item(items), NULL)))
        return valid_where(joined(constant(b"["), body, constant(b"]")), column)

    return encode


def _map(value: Encode) -> Encode:
    def encode(column: pa.Array) -> pa.Array:
        offsets, entries = flattened(column)
        names = _text(pc.struct_field(entries, 0))
        values = pc.fill_null(value(pc.struct_field(entries, 1)), NULL)
        body = gathered(offsets, joined(_commas(offsets, len(entries)), names, constant(b":"), values))
        return valid_where(joined(constant(b"{"), body, constant(b"}")), column)

    return encode


def _commas(offsets: Any, count: int) -> pa.Array:
    """A comma before every item that is not the first of its list."""
    is_first = np.zeros(count, np.bool_)
    is_first[offsets[:-1][np.diff(offsets) > 0]] = True
    return pc.if_else(pa.array(is_first), constant(b""), constant(b","))


def _scalar(kind: pa.DataType, where: str) -> Encode:
    types = pa.types
    if types.is_string(kind):
        return _text
    if types.is_binary(kind):
        return _base64
    if types.is_floating(kind):
        return lambda column: _as_text(pc.if_else(pc.is_finite(column), column, pa.scalar(None, column.type)))
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_decimal(kind):
        return _as_text
    if types.is_date(kind):
        return lambda column: _quoted(_as_text(column))
    if types.is_timestamp(kind):
        return _timestamp
    raise SchemaError(f"{where or 'the value'} is {kind}, which JSON does not have")


def _as_text(column: pa.Array) -> pa.Array:
    return column.cast(pa.string()).cast(pa.binary())


def _quoted(text: pa.Array) -> pa.Array:
    return joined(constant(b'"'), text, constant(b'"'))


def _timestamp(column: pa.Array) -> pa.Array:
    """`2026-11-19T01:02:03.000004Z`, without Z for a time without a zone."""
    zone = b"Z" if column.type.tz is not None else b""
    local = column.cast(pa.timestamp("us", column.type.tz)).view(pa.int64()).view(pa.timestamp("us"))
    text = pc.replace_substring(local.cast(pa.string()), " ", "T").cast(pa.binary())
    return _quoted(joined(text, constant(zone)))


def _text(column: pa.Array) -> pa.Array:
    plain = _quoted(column.cast(pa.binary()))
    is_special = pc.fill_null(pc.match_substring_regex(column, _ESCAPED), False)
    if not pc.any(is_special).as_py():
        return plain
    values = zip(column.to_pylist(), is_special.to_pylist(), strict=True)
    special = [msgspec.json.encode(value) if escape else None for value, escape in values]
    return pc.if_else(is_special, pa.array(special, pa.binary()), plain)


def _base64(column: pa.Array) -> pa.Array:
    texts = [None if value is None else base64.b64encode(value) for value in column.to_pylist()]
    return _quoted(pa.array(texts, pa.binary()))
