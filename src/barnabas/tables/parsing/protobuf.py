"""Protobuf values: parsed one by one by Google's compiled library, with the latest schema.

Fields are matched by number, so the schema version of the writer does not matter. The writer schema only determines the
message type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError

from barnabas.client.schemas import RegistryAccount
from barnabas.client.schemas.client import SchemaClient, decode, split_message_index
from barnabas.client.schemas.formats import ProtoFiles, descriptors_of_id
from barnabas.tables.parsing.protobuf_columns import takers
from barnabas.tables.registered import fetched
from barnabas.tables.shapes import ValueFormat

Read = Callable[[bytes], dict[str, Any]]
Names = Callable[[int, tuple[int, ...]], str]


def protobuf_reader(form: ValueFormat, requested: list[str]) -> Read:
    """Return a function that extracts the wanted fields of a value; ValueError if it does not match."""
    message = ProtoFiles(form.descriptors or b"").message(form.message)
    fields = takers(message.DESCRIPTOR, requested)
    assert form.registry is not None, "Protobuf values are read with a registry"
    name_of = message_names(form.registry)

    def read(value: bytes) -> dict[str, Any]:
        schema_id, payload = decode(value)
        path, data = split_message_index(payload)
        name = name_of(schema_id, path)
        if name != form.message:
            raise ValueError(f"message type is {name}, not {form.message}")
        try:
            found = message.FromString(data)
        except DecodeError as error:
            raise ValueError(f"no {form.message}: {error}") from error
        return {field: take(found) for field, take in fields.items()}

    return read


def message_names(registry: RegistryAccount) -> Names:
    """Message name of a path in a schema, by schema id; each schema is fetched once."""
    client, files = registry.client(), dict[int, ProtoFiles]()
    names: dict[tuple[int, tuple[int, ...]], str] = {}

    def name_of(schema_id: int, path: tuple[int, ...]) -> str:
        if (schema_id, path) not in names:
            if schema_id not in files:
                files[schema_id] = _files(client, schema_id)
            names[schema_id, path] = files[schema_id].name(path)
        return names[schema_id, path]

    return name_of


def _files(client: SchemaClient, schema_id: int) -> ProtoFiles:
    with client:  # few schemas, and no owner that would close it later
        schema = fetched(client, schema_id)
        if schema.type != "PROTOBUF":
            raise ValueError(f"its schema is {schema.type}, not PROTOBUF")
        return ProtoFiles(descriptors_of_id(client, schema_id))
