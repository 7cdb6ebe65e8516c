"""Columns of a Protobuf message, and functions that extract them.

Fields with presence (`optional`, `oneof`, messages) are null when unset; other fields have Protobuf's default. Unsigned
integers get a wider type, because Spark has none. A recursive message, or one without fields, has no column type: it
becomes JSON text; so do `google.protobuf.Struct`, `Value` and `ListValue`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import MessageToJson

from barnabas.tables.errors import SchemaError

MAX_FIELDS = 10_000  # including nested messages: two fields of the same type on each level double them
TIMESTAMP = "google.protobuf.Timestamp"
WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)

Take = Callable[[Any], Any]

_PLAIN: dict[int, pa.DataType] = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: pa.decimal128(20, 0),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_STRING: pa.string(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
}


def message_fields(message: Descriptor) -> pa.Schema:
    """Raises SchemaError for a message without fields."""
    if not message.fields:
        raise SchemaError(f"the message {message.full_name} has no fields: read the bytes with format='none'")
    return pa.schema(list(_Types().struct(message, frozenset())))


class _Types:
    """Column types of one schema; counts its fields."""

    def __init__(self) -> None:
        self._count = 0

    def struct(self, message: Descriptor, inside: frozenset[str]) -> pa.DataType:
        self._count += len(message.fields)
        if self._count > MAX_FIELDS:
            raise SchemaError(
                f"the Protobuf message has more than {MAX_FIELDS} fields: select some with schema='...'"
            )
        outer = inside | {message.full_name}
        return pa.struct([(field.name, self.field(field, outer)) for field in message.fields])

    def field(self, field: FieldDescriptor, inside: frozenset[str]) -> pa.DataType:
        if _is_map(field):
            names = field.message_type.fields_by_name
            return pa.map_(self.one(names["key"], inside), self.one(names["value"], inside))
        one = self.one(field, inside)
        return pa.list_(pa.field("element", one)) if _is_repeated(field) else one

    def one(self, field: FieldDescriptor, inside: frozenset[str]) -> pa.DataType:
        message = field.message_type
        if message is None:
            return pa.binary() if field.type == FieldDescriptor.TYPE_BYTES else _PLAIN[field.cpp_type]
        if message.full_name == TIMESTAMP:
            return pa.timestamp("us", tz="UTC")
        if message.full_name in WRAPPERS:
            return self.one(message.fields_by_name["value"], inside)
        if message.full_name in inside or _is_json(message):
            return pa.string()
        return self.struct(message, inside)


def takers(message: Descriptor, requested: list[str]) -> dict[str, Take]:
    """Extractors of the wanted fields, by field name."""
    return {name: _field(message.fields_by_name[name], frozenset({message.full_name})) for name in requested}


def _field(field: FieldDescriptor, inside: frozenset[str]) -> Take:
    name = field.name
    if _is_map(field):
        value = _one(field.message_type.fields_by_name["value"], inside)
        return lambda message: [(key, value(one)) for key, one in getattr(message, name).items()]
    one = _one(field, inside)
    if _is_repeated(field):
        return lambda message: [one(item) for item in getattr(message, name)]
    if not field.has_presence or field.has_default_value:
        return lambda message: one(getattr(message, name))
    return lambda message: one(getattr(message, name)) if message.HasField(name) else None


def _one(field: FieldDescriptor, inside: frozenset[str]) -> Take:
    message = field.message_type
    if message is None:
        return _enum(field) if field.enum_type is not None else _same
    if message.full_name == TIMESTAMP:
        return _microseconds
    if message.full_name in WRAPPERS:
        return lambda wrapped: wrapped.value
    if message.full_name in inside or _is_json(message):
        return _json
    return _struct(message, inside)


def _struct(message: Descriptor, inside: frozenset[str]) -> Take:
    fields = {field.name: _field(field, inside | {message.full_name}) for field in message.fields}
    return lambda found: {name: take(found) for name, take in fields.items()}


def _enum(field: FieldDescriptor) -> Take:
    """Name of the value; the number if a newer schema has added it."""
    names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
    return lambda number: names.get(number) or str(number)


def _microseconds(timestamp: Any) -> int:
    found: int = timestamp.seconds * 1_000_000 + timestamp.nanos // 1000
    return found


def _json(message: Any) -> str:
    text: str = MessageToJson(message, preserving_proto_field_name=True, indent=None)
    return text


def _same(value: Any) -> Any:
    return value


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _is_repeated(field: FieldDescriptor) -> bool:
    """Newer libraries deprecate `label`, older ones have nothing else."""
    if hasattr(field, "is_repeated"):
        return bool(field.is_repeated)
    return bool(field.label == FieldDescriptor.LABEL_REPEATED)


def _is_json(message: Descriptor) -> bool:
    names = ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue")
    return not message.fields or message.full_name in names
