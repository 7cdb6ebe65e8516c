"""Message classes of a .proto file in a schema registry."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from barnabas.client.errors import ClientError
from barnabas.client.schemas.client import NotFramedError, Schema, SchemaClient, quoted

# -- Protobuf's well-known types, from the installed library -------------------------------------------


@lru_cache(1)
def well_known_files() -> dict[str, bytes]:
    """Serialized descriptors by the name of their file."""
    from google.protobuf import (
        any_pb2,
        api_pb2,
        descriptor_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        source_context_pb2,
        struct_pb2,
        timestamp_pb2,
        type_pb2,
        wrappers_pb2,
    )

    modules = (
        *(any_pb2, api_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, source_context_pb2),
        *(struct_pb2, timestamp_pb2, type_pb2, wrappers_pb2),
    )
    found = {module.DESCRIPTOR.name: module.DESCRIPTOR.serialized_pb for module in modules}
    return {**found, **_common_types()}


def _common_types() -> dict[str, bytes]:
    """`google/type/*.proto`, which Confluent's registry knows too: dates, money, addresses."""
    from google.type import (
        calendar_period_pb2,
        color_pb2,
        date_pb2,
        datetime_pb2,
        dayofweek_pb2,
        decimal_pb2,
        expr_pb2,
        fraction_pb2,
        interval_pb2,
        latlng_pb2,
        money_pb2,
        month_pb2,
        phone_number_pb2,
        postal_address_pb2,
        quaternion_pb2,
        timeofday_pb2,
    )

    modules = (
        *(calendar_period_pb2, color_pb2, date_pb2, datetime_pb2, dayofweek_pb2, decimal_pb2, expr_pb2),
        *(fraction_pb2, interval_pb2, latlng_pb2, money_pb2, month_pb2, phone_number_pb2, postal_address_pb2),
        *(quaternion_pb2, timeofday_pb2),
    )
    return {module.DESCRIPTOR.name: module.DESCRIPTOR.serialized_pb for module in modules}


MAIN = "_.proto"


class ProtoFiles:
    """A file and what it imports: classes of its messages, by their names or by the path that values have."""

    def __init__(self, descriptors: bytes) -> None:
        """`descriptors`: a FileDescriptorSet as `fetch_descriptors` makes it, the file itself last."""
        from google.protobuf import descriptor_pool
        from google.protobuf.descriptor_pb2 import FileDescriptorSet

        self._pool = descriptor_pool.DescriptorPool()
        files = FileDescriptorSet.FromString(descriptors).file
        for file in files:
            self._pool.Add(file)
        self._file = files[-1]

    def name(self, path: Sequence[int]) -> str:
        """Of the message at a path of indexes, from the outermost; NotFramedError if none is there."""
        inside: Any = self._file.message_type
        name: str = self._file.package
        for index in path:
            if not 0 <= index < len(inside):
                raise NotFramedError(f"the schema has no message at {list(path)}")
            name = f"{name}.{inside[index].name}" if name else inside[index].name
            inside = inside[index].nested_type
        return name

    def path(self, name: str) -> tuple[int, ...]:
        """Path of a message of the file by its full name; KeyError if there is none."""
        inside: Any = self._file.message_type
        rest = name.removeprefix(f"{self._file.package}.") if self._file.package else name
        found = []
        for part in rest.split("."):
            names = [message.name for message in inside]
            if part not in names:
                raise KeyError(name)
            found.append(names.index(part))
            inside = inside[found[-1]].nested_type
        return tuple(found)

    def message(self, name: str) -> Any:
        """The class of a message by its full name; KeyError if there is none."""
        from google.protobuf import message_factory

        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(name))


def descriptors_of_id(client: SchemaClient, schema_id: int) -> bytes:
    return fetch_descriptors(client, f"/schemas/ids/{schema_id}", client.schema(schema_id))


def descriptors_of_latest(client: SchemaClient, subject: str, schema: Schema) -> bytes:
    return fetch_descriptors(client, f"/subjects/{quoted(subject)}/versions/latest", schema)


def fetch_descriptors(client: SchemaClient, path: str, schema: Schema) -> bytes:
    """A schema and what it imports, as a serialized FileDescriptorSet: each file behind those that it imports."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    known = {file.name: file for file in _files(client, MAIN, path, schema)}
    found: bytes = FileDescriptorSet(file=list(known.values())).SerializeToString()
    return found


def _files(client: SchemaClient, name: str, path: str, schema: Schema) -> Iterator[Any]:
    file = _file(client, name, path)
    for reference in schema.references:
        version = client.version(reference.subject, reference.version)
        where = f"/subjects/{quoted(reference.subject)}/versions/{reference.version}"
        yield from _files(client, reference.name, where, version.schema)
    for other in file.dependency:
        yield from _well_known(other)
    yield file


def _file(client: SchemaClient, name: str, path: str) -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    text = client.request("GET", f"{path}?format=serialized")["schema"]
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError, ValueError) as error:
        raise ClientError(
            f"{client.url} does not return Protobuf descriptors (format=serialized): use Barnabas' registry or "
            "Confluent's"
        ) from error
    file.name = name
    return file


def well_known_closure(file: Any) -> list[Any]:
    """The well-known files that a file imports, each behind those that it imports."""
    return list({one.name: one for other in file.dependency for one in _well_known(other)}.values())


def _well_known(name: str) -> Iterator[Any]:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    if name not in well_known_files():
        return
    file = FileDescriptorProto.FromString(well_known_files()[name])
    for other in file.dependency:
        yield from _well_known(other)
    yield file
