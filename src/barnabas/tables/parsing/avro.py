"""Avro values: read one by one by fastavro, which is compiled, with the schema they were written with."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import fastavro

from barnabas.client.schemas.formats.avro import ready_schema
from barnabas.tables.errors import SchemaError
from barnabas.tables.shapes import ValueFormat

Read = Callable[[bytes], dict[str, Any]]


def avro_reader(form: ValueFormat) -> Read:
    """A function of a value; ValueError for one that does not fit."""
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
        raise SchemaError(f"the Avro schema is no JSON: {error}") from error


def read_avro(value: bytes, schema: Any, reader: Any) -> dict[str, Any]:
    """One value; whatever is wrong with its bytes is a ValueError."""
    source = io.BytesIO(value)
    try:
        found = fastavro.schemaless_reader(source, schema, reader)
    except (
        Exception
    ) as error:  # fastavro raises what its C code meets: EOFError, IndexError, UnicodeError, ...
        raise ValueError(f"no value of the Avro schema: {error}") from error
    if source.tell() != len(value) or not isinstance(found, dict):
        raise ValueError("bytes follow the value of the Avro schema")
    return found
