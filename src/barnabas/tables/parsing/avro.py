"""Avro values: decoded one by one by fastavro, with their writer schema."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import fastavro

from barnabas.client.schemas.formats import ready_schema
from barnabas.tables.errors import SchemaError
from barnabas.tables.shapes import ValueFormat

Read = Callable[[bytes], dict[str, Any]]


def avro_reader(form: ValueFormat) -> Read:
    """Return a decoder of a value, which raises ValueError if the value does not match."""
    schema = ready_schema(parse_avro_schema(form.avro_schema or ""))
    if form.registry is None:
        return lambda value: read_avro(value, schema, None)
    from barnabas.tables.registered import writer_schemas

    written_with = writer_schemas(form.registry)

    def read(value: bytes) -> dict[str, Any]:
        writer, payload = written_with(value)
        return read_avro(payload, writer, schema)

    return read


def parse_avro_schema(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise SchemaError(f"the Avro schema is not valid JSON: {error}") from error


def read_avro(value: bytes, schema: Any, reader: Any) -> dict[str, Any]:
    """Decode one value; any error in its bytes is a ValueError."""
    source = io.BytesIO(value)
    try:
        found = fastavro.schemaless_reader(source, schema, reader)
    except Exception as error:  # fastavro's C code raises many types: EOFError, IndexError, UnicodeError, ...
        raise ValueError(f"does not match the Avro schema: {error}") from error
    if source.tell() != len(value) or not isinstance(found, dict):
        raise ValueError("trailing bytes after the Avro value")
    return found
