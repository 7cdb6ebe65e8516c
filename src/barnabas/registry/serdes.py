"""Values as serializers write them, to and from plain Python: for the command line, one record at a time.

Avro by fastavro, Protobuf by descriptors that the registry gives, JSON Schema as JSON (what does not fit is the
consumer's to find). Bytes inside a value are written as text, a byte as a letter (Latin-1), as Avro's own JSON does.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from barnabas.client.errors import ClientError
from barnabas.client.schemas import (
    NotFramedError,
    Schema,
    SchemaClient,
    decode,
    encode,
    join_message_index,
    quoted,
    split_message_index,
)
from barnabas.registry.formats.well_known import well_known_files

KEPT = 1_000  # schemas that are ready for use
_MAIN = "_.proto"


class UnfitValueError(ClientError):
    """The value is no value of its schema."""


class Decoder:
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
        except Exception as error:  # whatever a library says about bytes that are something else
            raise UnfitValueError(f"the value does not fit schema {schema_id}: {error}") from error

    def _make(self, schema_id: int) -> Callable[[bytes], Any]:
        schema = self.client.schema(schema_id)
        if schema.type == "JSON":
            return json.loads
        if schema.type == "AVRO":
            return _avro_reader(_avro(self.client, schema))
        messages = _Messages(self.client, f"/schemas/ids/{schema_id}", schema)
        return messages.read


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
            raise UnfitValueError(f"the value does not fit schema {self.schema_id}: {error}") from error

    def _make(self, client: SchemaClient, subject: str, schema: Schema) -> Callable[[Any], bytes]:
        if schema.type == "JSON":
            return _json_writer(schema)
        if schema.type == "AVRO":
            return _avro_writer(_avro(client, schema))
        messages = _Messages(client, f"/subjects/{quoted(subject)}/versions/latest", schema)
        return messages.write


def plain(value: Any) -> Any:
    """For `json.dumps(default=...)`: what JSON has no word for."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _json_writer(schema: Schema) -> Callable[[Any], bytes]:
    document = json.loads(schema.text)
    types = document.get("type") if isinstance(document, dict) else None
    if types == "object":
        return lambda value: _checked_object(value)
    return lambda value: json.dumps(value).encode()


def _checked_object(value: Any) -> bytes:
    if not isinstance(value, dict):
        raise ValueError("the schema wants an object")
    return json.dumps(value).encode()


def _avro(client: SchemaClient, schema: Schema, named: dict[str, Any] | None = None) -> Any:
    """A schema that fastavro has read, with those that it refers to."""
    from fastavro import parse_schema

    known: dict[str, Any] = {} if named is None else named
    for reference in schema.references:
        _avro(client, client.version(reference.subject, reference.version).schema, known)
    return parse_schema(json.loads(schema.text), named_schemas=known)


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
    """Messages of a .proto file, by the descriptors that `format=serialized` brings."""

    def __init__(self, client: SchemaClient, path: str, schema: Schema) -> None:
        from google.protobuf import descriptor_pool

        self._client = client
        self._pool = descriptor_pool.DescriptorPool()
        self._file = self._add(_MAIN, path, schema)

    def read(self, payload: bytes) -> Any:
        from google.protobuf.json_format import MessageToDict

        path, data = split_message_index(payload)
        return MessageToDict(self._class(path).FromString(data), preserving_proto_field_name=True)

    def write(self, value: Any) -> bytes:
        from google.protobuf.json_format import ParseDict

        message = ParseDict(value, self._class((0,))())
        return join_message_index((0,), message.SerializeToString())

    def _class(self, path: tuple[int, ...]) -> Any:
        from google.protobuf import message_factory

        inside, name = self._file.message_type, self._file.package
        for index in path:
            message = inside[index]
            name = f"{name}.{message.name}" if name else message.name
            inside = message.nested_type
        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(name))

    def _add(self, name: str, path: str, schema: Schema) -> Any:
        from google.protobuf.descriptor_pb2 import FileDescriptorProto

        found = self._client.request("GET", f"{path}?format=serialized")
        file = FileDescriptorProto.FromString(base64.b64decode(found["schema"]))
        file.name = name
        for reference in schema.references:
            version = self._client.version(reference.subject, reference.version)
            where = f"/subjects/{quoted(reference.subject)}/versions/{reference.version}"
            self._add(reference.name, where, version.schema)
        for other in file.dependency:
            self._add_well_known(other)
        self._pool.Add(file)
        return file

    def _add_well_known(self, name: str) -> None:
        from google.protobuf.descriptor_pb2 import FileDescriptorProto

        if name not in well_known_files():
            return
        file = FileDescriptorProto.FromString(well_known_files()[name])
        for other in file.dependency:
            self._add_well_known(other)
        self._pool.Add(file)
