"""Columns of an Avro schema."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType

from barnabas.client.schemas.formats import ready_schema
from barnabas.tables.errors import SchemaError
from barnabas.tables.parsing.avro import parse_avro_schema

_PLAIN: dict[str, pa.DataType] = {
    "null": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_LOGICAL: dict[str, pa.DataType] = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "uuid": pa.string(),
}


def avro_fields(text: str) -> pa.Schema:
    """Columns of a schema as JSON; SchemaError if it is not a record schema."""
    try:
        schema = ready_schema(parse_avro_schema(text), expand=True)
    except (SchemaParseException, UnknownType) as error:
        raise SchemaError(f"not a valid Avro schema: {error}") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise SchemaError("the Avro schema must be a record")
    return pa.schema([(field["name"], arrow_type(field["type"])) for field in schema["fields"]])


def arrow_type(kind: Any) -> pa.DataType:
    if isinstance(kind, list):
        options = [option for option in kind if option != "null"]
        if len(options) != 1:
            raise SchemaError(f"an Avro union of several types has no column type: {kind}")
        return arrow_type(options[0])
    return _complex_type({"type": kind} if isinstance(kind, str) else kind)


def _complex_type(kind: dict[str, Any]) -> pa.DataType:
    name, logical = kind["type"], kind.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(kind["precision"], kind.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if name == "record":
        return pa.struct([(field["name"], arrow_type(field["type"])) for field in kind["fields"]])
    if name == "array":
        return pa.list_(pa.field("element", arrow_type(kind["items"])))
    if name == "map":
        return pa.map_(pa.string(), arrow_type(kind["values"]))
    if name not in _PLAIN:
        raise SchemaError(f"no column type for the Avro type {name!r}")
    return _PLAIN[name]
