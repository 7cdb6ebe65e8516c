"""Protobuf values: parsed one by one by Google's library, which is compiled, with the newest schema.

Fields are found by their numbers, whichever version of the schema a value was written with. The writer's schema is
asked only which message a value is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError

from barnabas.client.schemas.formats.protobuf import ProtoFiles, descriptors_of_id
from barnabas.client.schemas.client import SchemaClient, decode, split_message_index
from barnabas.tables.parsing.protobuf_columns import takers
from barnabas.tables.registered import fetched
from barnabas.tables.shapes import ValueFormat

Read = Callable[[bytes], dict[str, Any]]
Names = Callable[[int, tuple[int, ...]], str]


def protobuf_reader(form: ValueFormat, wanted: list[str]) -> Read:
    """A function of a value, which gives the wanted fields; ValueError for one that does not fit."""
    message = ProtoFiles(form.descriptors or b"").message(form.message)
    fields = takers(message.DESCRIPTOR, wanted)
    name_of = message_names(form.registry or "")

    def read(value: bytes) -> dict[str, Any]:
        schema_id, payload = decode(value)
        path, data = split_message_index(payload)
        name = name_of(schema_id, path)
        if name != form.message:
            raise ValueError(f"it is a {name}, not a {form.message}")
        try:
            found = message.FromString(data)
        except DecodeError as error:
            raise ValueError(f"no {form.message}: {error}") from error
        return {field: take(found) for field, take in fields.items()}

    return read


def message_names(url: str) -> Names:
    """Which message a path means in a schema, by the schema's id; each schema is fetched once."""
    client, files = SchemaClient(url), dict[int, ProtoFiles]()
    names: dict[tuple[int, tuple[int, ...]], str] = {}

    def name_of(schema_id: int, path: tuple[int, ...]) -> str:
        if (schema_id, path) not in names:
            if schema_id not in files:
                files[schema_id] = _files(client, schema_id)
            names[schema_id, path] = files[schema_id].name(path)
        return names[schema_id, path]

    return name_of


def _files(client: SchemaClient, schema_id: int) -> ProtoFiles:
    with client:  # few schemas, and nobody who would close it later
        schema = fetched(client, schema_id)
        if schema.type != "PROTOBUF":
            raise ValueError(f"its schema is {schema.type}, not PROTOBUF")
        return ProtoFiles(descriptors_of_id(client, schema_id))
