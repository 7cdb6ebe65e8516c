"""Values as serializers write them, to and from plain Python: for the command line, one record at a time.

Avro by fastavro, Protobuf by descriptors of the registry, JSON Schema as JSON (validation is left to
consumers). Bytes inside a value are written as Latin-1 text, as in Avro's JSON encoding.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from barnabas.client.errors import ClientError
from barnabas.client.schemas.client import (
    NotFramedError,
    Schema,
    SchemaClient,
    decode,
    encode,
    join_message_index,
    split_message_index,
)
from barnabas.client.schemas.formats.avro import ready_schema
from barnabas.client.schemas.formats.protobuf import ProtoFiles, descriptors_of_id, descriptors_of_latest

KEPT = 1_000  # cached parsed schemas


class IncompatibleValueError(ClientError):
    """The value does not match its schema."""


class SchemaDecoder:
    """`decoder(data)` is the value; NotFramedError for bytes without a schema id."""

    def __init__(self, client: SchemaClient) -> None:
        self.client = client
        self._reader = lru_cache(KEPT)(self._make)

    def __call__(self, data: bytes) -> Any:
        schema_id, payload = decode(data)
        try:
            return self._reader(schema_id)(payload)
        except (NotFramedError, ClientError):
            raise
        except Exception as error:  # any library error for malformed bytes
            raise IncompatibleValueError(f"the value does not match schema {schema_id}: {error}") from error

    def _make(self, schema_id: int) -> Callable[[bytes], Any]:
        schema = self.client.schema(schema_id)
        if schema.type == "JSON":
            return json.loads
        if schema.type == "AVRO":
            return _avro_reader(_avro(self.client, schema))
        return _Messages(descriptors_of_id(self.client, schema_id)).read


class Encoder:
    """`encoder(value)` is what a serializer would write with the latest schema of a subject."""

    def __init__(self, client: SchemaClient, subject: str) -> None:
        latest = client.latest(subject)
        self.schema_id = latest.id
        self._write = self._make(client, subject, latest.schema)

    def __call__(self, value: Any) -> bytes:
        try:
            return encode(self.schema_id, self._write(value))
        except Exception as error:
            raise IncompatibleValueError(
                f"the value does not match schema {self.schema_id}: {error}"
            ) from error

    def _make(self, client: SchemaClient, subject: str, schema: Schema) -> Callable[[Any], bytes]:
        if schema.type == "JSON":
            return _json_writer(schema)
        if schema.type == "AVRO":
            return _avro_writer(_avro(client, schema))
        return _Messages(descriptors_of_latest(client, subject, schema)).write


def plain(value: Any) -> Any:
    """For `json.dumps(default=...)`: types that JSON lacks."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _json_writer(schema: Schema) -> Callable[[Any], bytes]:
    document = json.loads(schema.text)
    types = document.get("type") if isinstance(document, dict) else None
    if types == "object":
        return lambda value: _checked_object(value)
    return lambda value: json.dumps(value).encode()


def _checked_object(value: Any) -> bytes:
    if not isinstance(value, dict):
        raise ValueError("the schema requires an object")
    return json.dumps(value).encode()


def _avro(client: SchemaClient, schema: Schema, named: dict[str, Any] | None = None) -> Any:
    """Schema parsed by fastavro, with its references."""
    known: dict[str, Any] = {} if named is None else named
    for reference in schema.references:
        _avro(client, client.version(reference.subject, reference.version).schema, known)
    return ready_schema(json.loads(schema.text), known)


def _avro_reader(schema: Any) -> Callable[[bytes], Any]:
    from fastavro import schemaless_reader

    return lambda payload: schemaless_reader(io.BytesIO(payload), schema, None)


def _avro_writer(schema: Any) -> Callable[[Any], bytes]:
    from fastavro import schemaless_writer

    def write(value: Any) -> bytes:
        out = io.BytesIO()
        schemaless_writer(out, schema, value, strict_allow_default=True)
        return out.getvalue()

    return write


class _Messages:
    """Values of a .proto file, to and from plain Python."""

    def __init__(self, descriptors: bytes) -> None:
        self._files = ProtoFiles(descriptors)

    def read(self, payload: bytes) -> Any:
        from google.protobuf.json_format import MessageToDict

        path, data = split_message_index(payload)
        return MessageToDict(self._class(path).FromString(data), preserving_proto_field_name=True)

    def write(self, value: Any) -> bytes:
        from google.protobuf.json_format import ParseDict

        message = ParseDict(value, self._class((0,))())
        return join_message_index((0,), message.SerializeToString())

    def _class(self, path: tuple[int, ...]) -> Any:
        return self._files.message(self._files.name(path))
