"""Avro: a column of any type by a schema of fastavro, with the binary encoding of the specification."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.tables.encoding.fragments import (
    Encode,
    constant,
    decimal_bytes,
    decimals,
    fixed,
    flattened,
    floats,
    gathered,
    joined,
    sized,
    valid_where,
    whole_numbers,
    zigzag,
)
from barnabas.tables.errors import BadValueError, SchemaError

_TIMES = {
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
}
_END = b"\0"


def avro_encoder(schema: Any, kind: pa.DataType, where: str = "") -> Encode:
    """Encoder of values of `kind`, by a parsed schema; SchemaError if they do not fit it."""
    if isinstance(schema, list):
        return _union(schema, kind, where)
    if isinstance(schema, str):
        schema = {"type": schema}
    name, logical = schema["type"], schema.get("logicalType")
    if isinstance(name, (dict, list)):
        return avro_encoder(name, kind, where)
    if name == "record":
        return _record(schema, kind, where)
    encode = _logical(schema, logical, kind) or _plain(schema, name, kind, where)
    if encode is None:
        raise SchemaError(f"{where or 'the value'} is {kind}, and the schema has {logical or name}")
    return encode


def _union(options: list[Any], kind: pa.DataType, where: str) -> Encode:
    """The first branch that fits; null becomes the branch null."""
    problems = []
    for index, option in enumerate(options):
        if option == "null":
            continue
        try:
            encode = avro_encoder(option, kind, where)
        except SchemaError as error:
            problems.append(str(error))
            continue
        return _branch(encode, index, options.index("null") if "null" in options else None, where)
    raise SchemaError(
        problems[0] if problems else f"{where or 'the value'} is {kind}, and the schema has null"
    )


def _branch(encode: Encode, index: int, null: int | None, where: str) -> Encode:
    tag = constant(_number(index))
    if null is None:
        return lambda column: joined(tag, _required(encode, column, where))
    absent = constant(_number(null))
    return lambda column: pc.fill_null(joined(tag, encode(column)), absent)


def _record(schema: dict[str, Any], kind: pa.DataType, where: str) -> Encode:
    if not pa.types.is_struct(kind):
        raise SchemaError(f"{where or 'the value'} is {kind}, and the schema has the record {schema['name']}")
    known = {field["name"] for field in schema["fields"]}
    extra = [field.name for field in kind if field.name not in known]
    if extra:
        raise SchemaError(f"the record {schema['name']} of the schema has no field {extra[0]}")
    parts = [_field(field, kind, where) for field in schema["fields"]]

    def encode(column: pa.Array) -> pa.Array:
        return valid_where(joined(constant(b""), *(part(column) for part in parts), _blank(column)), column)

    return encode


def _blank(column: pa.Array) -> pa.Array:
    """Empty values, so that a record without fields has a length."""
    return pa.repeat(constant(b""), len(column))


def _field(field: dict[str, Any], kind: pa.StructType, where: str) -> Encode:
    name = field["name"]
    index = kind.get_field_index(name)
    path = f"{where}.{name}" if where else name
    if index < 0:
        return _default(field, path)
    encode = avro_encoder(field["type"], kind.field(index).type, path)
    nullable = _takes_null(field["type"])

    def member(column: pa.Array) -> pa.Array:
        values = pc.struct_field(column, index)
        if nullable:
            return encode(values)
        encoded = encode(values)
        if values.null_count > column.null_count:
            raise BadValueError(f"{path} is null in a row, and the schema requires a value")
        return pc.fill_null(encoded, constant(b""))

    return member


def _default(field: dict[str, Any], path: str) -> Encode:
    """A field that the rows lack: its default in every value."""
    import fastavro

    if "default" not in field:
        raise SchemaError(f"the schema requires the field {path}, which the rows do not have")
    kind = field["type"][0] if isinstance(field["type"], list) else field["type"]
    default = field["default"].encode("latin-1") if kind == "bytes" else field["default"]
    out = io.BytesIO()
    fastavro.schemaless_writer(out, field["type"], default)
    data = constant(out.getvalue())
    return lambda column: pa.repeat(data, len(column))


def _takes_null(schema: Any) -> bool:
    return schema == "null" or (isinstance(schema, list) and "null" in schema)


def _required(encode: Encode, column: pa.Array, where: str) -> pa.Array:
    if column.null_count:
        raise BadValueError(f"{where or 'the value'} is null in a row, and the schema requires a value")
    return encode(column)


def _logical(schema: dict[str, Any], logical: str | None, kind: pa.DataType) -> Encode | None:
    if logical == "decimal":
        return _decimal(schema, kind)
    if logical == "date" and pa.types.is_date32(kind):
        return _numbers
    target = _TIMES.get(logical or "")
    if target is not None and pa.types.is_timestamp(kind) and (kind.tz is None) == (target.tz is None):
        return lambda column: _numbers(column.cast(target, safe=False))
    return None


def _decimal(schema: dict[str, Any], kind: pa.DataType) -> Encode | None:
    precision, scale = schema["precision"], schema.get("scale", 0)
    if (
        not pa.types.is_decimal128(kind)
        or kind.scale > scale
        or kind.precision - kind.scale > precision - scale
    ):
        return None
    width = schema.get("size", 0) or decimal_bytes(precision)
    if width > 16:
        return None
    target = pa.decimal128(precision, scale)
    size = constant(b"" if schema["type"] == "fixed" else _number(width))
    return lambda column: valid_where(joined(size, decimals(column.cast(target), width)), column)


def _plain(schema: dict[str, Any], name: str, kind: pa.DataType, where: str) -> Encode | None:
    types = pa.types
    if schema.get("logicalType") in (*_TIMES, "date", "decimal"):
        return None
    if name == "boolean" and types.is_boolean(kind):
        return lambda column: valid_where(
            fixed(whole_numbers(column).astype(np.uint8).reshape(-1, 1)), column
        )
    if (name == "int" and types.is_signed_integer(kind) and kind.bit_width <= 32) or (
        name == "long" and types.is_signed_integer(kind)
    ):
        return _numbers
    if name in ("float", "double") and (types.is_floating(kind) or types.is_signed_integer(kind)):
        if name == "double" or kind == pa.float32():
            return lambda column: valid_where(floats(column, "<f4" if name == "float" else "<f8"), column)
        return None
    if (name == "string" and types.is_string(kind)) or (name == "bytes" and types.is_binary(kind)):
        return lambda column: sized(column, zigzag)
    return _named(schema, name, kind, where)


def _named(schema: dict[str, Any], name: str, kind: pa.DataType, where: str) -> Encode | None:
    types = pa.types
    if name == "enum" and types.is_string(kind):
        return _enum(schema, where)
    if name == "fixed" and types.is_binary(kind):
        return _fixed(schema, where)
    if name == "array" and types.is_list(kind):
        return _list(avro_encoder(schema["items"], kind.value_type, f"{where}[]"), schema["items"], where)
    if name == "map" and types.is_map(kind) and types.is_string(kind.key_type):
        return _map(avro_encoder(schema["values"], kind.item_type, f"{where}{{}}"), schema["values"], where)
    return None


def _numbers(column: pa.Array) -> pa.Array:
    return valid_where(zigzag(whole_numbers(column)), column)


def _enum(schema: dict[str, Any], where: str) -> Encode:
    symbols = pa.array(schema["symbols"], pa.string())

    def encode(column: pa.Array) -> pa.Array:
        found = pc.index_in(column, symbols)
        if found.null_count > column.null_count:
            other = column.filter(pc.and_(column.is_valid(), found.is_null()))[0].as_py()
            raise BadValueError(f"{where} is {other!r} in a row, which is not a symbol of {schema['name']}")
        return _numbers(found)

    return encode


def _fixed(schema: dict[str, Any], where: str) -> Encode:
    size = schema["size"]

    def encode(column: pa.Array) -> pa.Array:
        if pc.any(pc.not_equal(pc.binary_length(column), size)).as_py():
            raise BadValueError(f"{where} of a row does not have the {size} bytes of {schema['name']}")
        return column

    return encode


def _list(item: Encode, schema: Any, where: str) -> Encode:
    def encode(column: pa.Array) -> pa.Array:
        offsets, items = flattened(column)
        encoded = item(items) if _takes_null(schema) else _required(item, items, f"{where}[]")
        return valid_where(_blocks(offsets, gathered(offsets, encoded)), column)

    return encode


def _map(value: Encode, schema: Any, where: str) -> Encode:
    def encode(column: pa.Array) -> pa.Array:
        offsets, entries = flattened(column)
        values = pc.struct_field(entries, 1)
        encoded = value(values) if _takes_null(schema) else _required(value, values, f"{where}{{}}")
        both = joined(sized(pc.struct_field(entries, 0), zigzag), encoded)
        return valid_where(_blocks(offsets, gathered(offsets, both)), column)

    return encode


def _blocks(offsets: Any, items: pa.Array) -> pa.Array:
    """One block with all items, and the empty block that ends a list."""
    counts = np.diff(offsets)
    counted = joined(zigzag(counts), items, constant(_END))
    return pc.if_else(pa.array(counts > 0), counted, constant(_END))


def _number(number: int) -> bytes:
    found: bytes = zigzag(np.array([number], np.int64))[0].as_py()
    return found
