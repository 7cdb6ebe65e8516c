"""Schemas of Arrow types, such that a new column is a compatible change: every field may be null, and is so by default.

A Protobuf message keeps the fields of the schema before it, with their numbers; new fields get the numbers after those.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from barnabas.tables.encoding.protobuf import TIMESTAMP
from barnabas.tables.errors import SchemaError

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def record_name(topic: str, *, is_key: bool) -> str:
    """Default name of a record: `shop.orders-eu` becomes `ShopOrdersEu`."""
    words = re.findall(r"[A-Za-z0-9]+", topic)
    name = "".join(word[:1].upper() + word[1:] for word in words) or "Record"
    return f"{'_' if name[0].isdigit() else ''}{name}{'Key' if is_key else ''}"


def check_record_name(name: str, option: str) -> str:
    if all(_NAME.fullmatch(part) for part in name.split(".")):
        return name
    raise SchemaError(f"option {option!r} must be a full name such as shop.Order, not {name!r}")


# -- Avro -------------------------------------------------------------------------------------------------

_AVRO: dict[pa.DataType, Any] = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
}


def avro_schema_of(kind: pa.DataType, name: str) -> str:
    return json.dumps(_avro(kind, name))


def _avro(kind: pa.DataType, name: str) -> Any:
    if kind in _AVRO:
        return _AVRO[kind]
    types = pa.types
    if types.is_struct(kind):
        _check_names(kind)
        short = name.rpartition(".")[2]
        fields = [
            {
                "name": field.name,
                "type": ["null", _avro(field.type, f"{short}_{field.name}")],
                "default": None,
            }
            for field in kind
        ]
        namespace = {"namespace": name.rpartition(".")[0]} if "." in name else {}
        return {"type": "record", "name": short, **namespace, "fields": fields}
    if types.is_list(kind):
        return {"type": "array", "items": ["null", _avro(kind.value_type, f"{name}_item")]}
    if types.is_map(kind) and types.is_string(kind.key_type):
        return {"type": "map", "values": ["null", _avro(kind.item_type, f"{name}_value")]}
    if types.is_timestamp(kind):
        return {"type": "long", "logicalType": f"{'' if kind.tz else 'local-'}timestamp-micros"}
    if types.is_decimal128(kind):
        decimal = {"precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", "logicalType": "decimal", **decimal}
    raise SchemaError(f"{name} is {kind}, which Avro does not have")


# -- JSON Schema ------------------------------------------------------------------------------------------


_JSON: tuple[tuple[Callable[[pa.DataType], bool], dict[str, str]], ...] = (
    (pa.types.is_boolean, {"type": "boolean"}),
    (pa.types.is_integer, {"type": "integer"}),
    (pa.types.is_floating, {"type": "number"}),
    (pa.types.is_decimal, {"type": "number"}),
    (pa.types.is_date, {"type": "string", "format": "date"}),
    (pa.types.is_binary, {"type": "string", "contentEncoding": "base64"}),
    (pa.types.is_string, {"type": "string"}),
)


def json_schema_of(kind: pa.DataType, name: str) -> str:
    """Objects are closed: only then is another property a compatible change."""
    draft = {"$schema": "http://json-schema.org/draft-07/schema#", "title": name}
    return json.dumps({**draft, **_json(kind, name)})


def _json(kind: pa.DataType, name: str) -> dict[str, Any]:
    types = pa.types
    for is_kind, schema in _JSON:
        if is_kind(kind):
            return dict(schema)
    if types.is_struct(kind):
        properties = {field.name: _nullable(_json(field.type, f"{name}.{field.name}")) for field in kind}
        return {"type": "object", "properties": properties, "additionalProperties": False}
    if types.is_list(kind):
        return {"type": "array", "items": _nullable(_json(kind.value_type, f"{name}[]"))}
    if types.is_map(kind) and types.is_string(kind.key_type):
        return {"type": "object", "additionalProperties": _nullable(_json(kind.item_type, f"{name}{{}}"))}
    if types.is_timestamp(kind):
        return {"type": "string", "format": "date-time"} if kind.tz else {"type": "string"}
    raise SchemaError(f"{name} is {kind}, which JSON does not have")


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "type": [schema["type"], "null"]}


# -- Protobuf ---------------------------------------------------------------------------------------------


def proto_file_of(kind: pa.DataType, name: str, before: FileDescriptorProto | None) -> FileDescriptorProto:
    """A file whose first message is `name`. `before`: the schema that it continues."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    if not pa.types.is_struct(kind):
        raise SchemaError(f"the value is {kind}: a Protobuf message needs a struct")
    package, _, short = name.rpartition(".")
    file = FileDescriptorProto(name="default.proto", package=package, syntax="proto3")
    known = None
    if before is not None and before.package == package and before.message_type:
        file.CopyFrom(before)
        known = file.message_type[0] if file.message_type[0].name == short else None
    message = known if known is not None else file.message_type.add(name=short)
    _fill(message, kind, f".{name}")
    if file.message_type[0].name != short:
        raise SchemaError(
            f"the first message of the schema is {file.message_type[0].name}, not {short}: set its name"
        )
    if _uses_timestamp(file.message_type) and f"{_TIMESTAMP_FILE}" not in file.dependency:
        file.dependency.append(_TIMESTAMP_FILE)
    return file


_TIMESTAMP_FILE = "google/protobuf/timestamp.proto"


def _fill(message: DescriptorProto, kind: pa.StructType, scope: str) -> None:
    """Add the fields that the message lacks."""
    _check_names(kind)
    known = {field.name: field for field in message.field}
    number = max((field.number for field in message.field), default=0)
    for field in kind:
        if field.name in known:
            _extend(message, known[field.name], field.type, scope)
            continue
        number += 1
        _add(message, field.name, number if number < 19_000 else number + 1_000, field.type, scope)


def _extend(message: DescriptorProto, field: FieldDescriptorProto, kind: pa.DataType, scope: str) -> None:
    """A nested message may have gained fields, too; other changes are for the check of the types."""
    inner = kind.value_type if pa.types.is_list(kind) else kind
    nested = {one.name: one for one in message.nested_type}
    name = field.type_name.rpartition(".")[2]
    if pa.types.is_struct(inner) and name in nested and not nested[name].options.map_entry:
        _fill(nested[name], inner, f"{scope}.{name}")


def _add(message: DescriptorProto, name: str, number: int, kind: pa.DataType, scope: str) -> None:
    types = pa.types
    if types.is_map(kind):
        entry = message.nested_type.add(name=f"{_camel(name)}Entry")
        entry.options.map_entry = True
        _add_one(entry, "key", 1, kind.key_type, f"{scope}.{entry.name}", label=1)
        _add_one(entry, "value", 2, kind.item_type, f"{scope}.{entry.name}", label=1)
        message.field.add(name=name, number=number, label=3, type=11, type_name=f"{scope}.{entry.name}")
        return
    if types.is_list(kind):
        if types.is_list(kind.value_type) or types.is_map(kind.value_type):
            raise SchemaError(f"{name} is {kind}: Protobuf has no lists of lists and of maps")
        _add_one(message, name, number, kind.value_type, scope, label=3)
        return
    field = _add_one(message, name, number, kind, scope, label=1)
    if field.type != 11:
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")


def _add_one(
    message: DescriptorProto, name: str, number: int, kind: pa.DataType, scope: str, label: int
) -> FieldDescriptorProto:
    field = message.field.add(name=name, number=number, label=label)
    if pa.types.is_struct(kind):
        nested = message.nested_type.add(name=_camel(name))
        _fill(nested, kind, f"{scope}.{nested.name}")
        field.type, field.type_name = 11, f"{scope}.{nested.name}"
    elif pa.types.is_timestamp(kind):
        field.type, field.type_name = 11, f".{TIMESTAMP}"
    else:
        field.type = _proto_type(name, kind)
    return field


def _proto_type(name: str, kind: pa.DataType) -> int:
    types = pa.types
    found = {
        pa.float64(): 1,
        pa.float32(): 2,
        pa.int64(): 3,
        pa.bool_(): 8,
        pa.string(): 9,
        pa.binary(): 12,
    }.get(kind)
    if found is None and types.is_signed_integer(kind):
        return 5
    if found is None:
        raise SchemaError(f"{name} is {kind}, which Protobuf does not have: cast it to string")
    return found


def _uses_timestamp(messages: Iterable[DescriptorProto]) -> bool:
    return any(
        _uses_timestamp(message.nested_type)
        or any(field.type_name == f".{TIMESTAMP}" for field in message.field)
        for message in messages
    )


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def _check_names(kind: pa.StructType) -> None:
    wrong = [field.name for field in kind if not _NAME.fullmatch(field.name)]
    if wrong:
        raise SchemaError(
            f"{wrong[0]!r} is not a valid field name of the schema (letters, digits, _): rename the column"
        )
