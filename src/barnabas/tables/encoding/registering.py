"""Registration by the driver: subject, schema and id of what tasks encode. Tasks send no request to the registry."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from barnabas.client.schemas import (
    NO_ACCOUNT,
    RegistryAccount,
    RegistryError,
    Schema,
    SchemaClient,
    encode,
    join_message_index,
)
from barnabas.tables.encoding import generating
from barnabas.tables.encoding.fragments import Encode, constant, joined
from barnabas.tables.errors import SchemaError

Kind = Literal["avro", "json", "protobuf"]
TOPIC, RECORD, TOPIC_RECORD = "TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy"
STRATEGIES = (TOPIC, RECORD, TOPIC_RECORD)
_NAMES = {"avro": "AVRO", "json": "JSON", "protobuf": "PROTOBUF"}


@dataclass(frozen=True)
class WriteFormat:
    """Format of a column as its options say it."""

    kind: Kind
    is_key: bool = False
    strategy: str = TOPIC
    record: str = ""
    """Full name of the record or message; empty: from the topic."""
    registers: bool = True
    uses_latest: bool = False
    normalizes: bool = False
    registry: RegistryAccount = NO_ACCOUNT

    def record_for(self, topic: str | None) -> str:
        return self.record or generating.record_name(topic or "", is_key=self.is_key)

    def subject(self, topic: str | None) -> str:
        """SchemaError if the strategy needs what is not given."""
        side = "key" if self.is_key else "value"
        if self.strategy != TOPIC and not self.record:
            raise SchemaError(
                f"{self.strategy} needs the name of the record: set the option '{side}.record.name'"
            )
        if self.strategy == RECORD:
            return self.record
        if topic is None:
            raise SchemaError(
                f"{self.strategy} needs one topic: set the option 'topic', or "
                f"'{side}.subject.name.strategy' to {RECORD}"
            )
        return f"{topic}-{side}" if self.strategy == TOPIC else f"{topic}-{self.record}"


@dataclass(frozen=True)
class FramedFormat:
    """A registered schema, for tasks: picklable, and all that they need."""

    kind: Kind
    schema_id: int
    schema: bytes
    """JSON with all references; of Protobuf a FileDescriptorSet."""
    message: str = ""
    path: tuple[int, ...] = ()

    def encoder(self, kind: pa.DataType) -> Encode:
        """Encoder of framed values; SchemaError if the type does not fit the schema."""
        payload = self._payload(kind)
        prefix = constant(encode(self.schema_id, join_message_index(self.path, b"") if self.path else b""))
        return lambda column: joined(prefix, payload(column))

    def _payload(self, kind: pa.DataType) -> Encode:
        if self.kind == "avro":
            from barnabas.client.schemas.formats import ready_schema
            from barnabas.tables.encoding.avro import avro_encoder

            return avro_encoder(ready_schema(json.loads(self.schema), expand=True), kind)
        if self.kind == "json":
            from barnabas.tables.encoding.json_text import json_encoder

            return json_encoder(json.loads(self.schema), kind)
        from barnabas.client.schemas.formats import ProtoFiles
        from barnabas.tables.encoding.protobuf import message_encoder

        return message_encoder(ProtoFiles(self.schema).message(self.message).DESCRIPTOR, kind)


def framed_format(write_format: WriteFormat, topic: str | None, kind: pa.DataType) -> FramedFormat:
    """Register, or look up, the schema of a column; SchemaError in one sentence if that is refused, or does not fit."""
    subject = write_format.subject(topic)
    with write_format.registry.client() as client:
        found = (
            _latest(client, write_format, subject)
            if write_format.uses_latest
            else _own(client, write_format, subject, topic, kind)
        )
    try:
        found.encoder(kind)
    except SchemaError as error:
        raise SchemaError(
            f"the rows do not fit the schema {found.schema_id} of subject {subject}: {error}"
        ) from None
    return found


def _latest(client: SchemaClient, write_format: WriteFormat, subject: str) -> FramedFormat:
    try:
        latest = client.latest(subject)
    except RegistryError as error:
        raise SchemaError(f"the newest schema of subject {subject} is not known: {error}") from None
    if latest.schema.type != _NAMES[write_format.kind]:
        raise SchemaError(
            f"the newest schema of subject {subject} is {latest.schema.type}, not {_NAMES[write_format.kind]}"
        )
    return _framed(client, write_format, subject, latest.id, latest.schema)


def _framed(
    client: SchemaClient, write_format: WriteFormat, subject: str, number: int, schema: Schema
) -> FramedFormat:
    if write_format.kind == "avro":
        from barnabas.tables.registered import avro_text

        return FramedFormat("avro", number, avro_text(client, schema).encode())
    if write_format.kind == "json":
        return FramedFormat("json", number, schema.text.encode())
    from barnabas.client.schemas.formats import ProtoFiles, descriptors_of_id

    descriptors = descriptors_of_id(client, number)
    files = ProtoFiles(descriptors)
    try:
        path = files.path(write_format.record) if write_format.record else (0,)
    except KeyError:
        raise SchemaError(
            f"the newest schema of subject {subject} has no message {write_format.record}"
        ) from None
    return FramedFormat("protobuf", number, descriptors, files.name(path), path)


def _own(
    client: SchemaClient, write_format: WriteFormat, subject: str, topic: str | None, kind: pa.DataType
) -> FramedFormat:
    """The schema of the rows, which the registry accepts only if it is compatible with those before."""
    name, register = write_format.record_for(topic), _registrar(client, write_format, subject)
    if write_format.kind == "avro":
        text = generating.avro_schema_of(kind, name)
        return FramedFormat("avro", register(Schema("AVRO", text)), text.encode())
    if write_format.kind == "json":
        text = generating.json_schema_of(kind, name)
        return FramedFormat("json", register(Schema("JSON", text)), text.encode())
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    from barnabas.client.schemas.formats import well_known_closure

    file = generating.proto_file_of(kind, name, _before(client, subject))
    number = register(Schema("PROTOBUF", base64.b64encode(file.SerializeToString()).decode()))
    files = FileDescriptorSet(file=[*well_known_closure(file), file])
    return FramedFormat("protobuf", number, files.SerializeToString(), name, (0,))


def _before(client: SchemaClient, subject: str) -> Any | None:
    """The file of the newest schema, whose field numbers must stay; None if there is none."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    from barnabas.client.schemas.formats import descriptors_of_latest

    try:
        latest = client.latest(subject)
    except RegistryError as error:
        if error.status == 404:
            return None
        raise SchemaError(f"the newest schema of subject {subject} is not known: {error}") from None
    if latest.schema.type != "PROTOBUF" or latest.schema.references:
        return None
    return FileDescriptorSet.FromString(descriptors_of_latest(client, subject, latest.schema)).file[-1]


def _registrar(client: SchemaClient, write_format: WriteFormat, subject: str) -> Callable[[Schema], int]:
    def register(schema: Schema) -> int:
        try:
            if write_format.registers:
                return client.register(subject, schema, normalize=write_format.normalizes)
            return client.lookup(subject, schema, normalize=write_format.normalizes)
        except RegistryError as error:
            if write_format.registers or error.status != 404:
                raise SchemaError(
                    f"the schema of the rows is not accepted for subject {subject}: {error}"
                ) from None
            raise SchemaError(
                f"subject {subject} does not have the schema of the rows, and auto.register.schemas is false: "
                "register it, or set use.latest.version"
            ) from None

    return register
