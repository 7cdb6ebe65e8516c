"""Columns of a topic of Protobuf messages, by the latest schema in the registry."""

from __future__ import annotations

from collections import Counter

from barnabas.client.schemas import RegistryAccount
from barnabas.client.schemas.client import decode, split_message_index
from barnabas.client.schemas.formats import ProtoFiles, descriptors_of_latest
from barnabas.tables.errors import SchemaError
from barnabas.tables.parsing.protobuf import Names, message_names
from barnabas.tables.parsing.protobuf_columns import message_fields
from barnabas.tables.registered import Sample
from barnabas.tables.shapes import REASON, ValueFormat


def protobuf_format(
    registry: RegistryAccount, topic: str, message: str | None = None, sample: Sample = list
) -> ValueFormat:
    """Columns of the named message; else of the most frequent one in the sample; else of the schema's first."""
    with registry.client() as client:
        subject = f"{topic}-value"
        newest = client.latest(subject).schema
        if newest.type != "PROTOBUF":
            raise SchemaError(f"the newest schema of {subject} is {newest.type}, not PROTOBUF")
        descriptors = descriptors_of_latest(client, subject, newest)
    files = ProtoFiles(descriptors)
    name = message or _usual_message(message_names(registry), sample()) or files.name((0,))
    try:
        fields = message_fields(files.message(name).DESCRIPTOR)
    except KeyError:
        raise SchemaError(f"the newest schema of {subject} has no message {name}") from None
    return ValueFormat(
        "protobuf", fields, reason_column=REASON, registry=registry, descriptors=descriptors, message=name
    )


def _usual_message(name_of: Names, values: list[bytes | None]) -> str | None:
    names: Counter[str] = Counter()
    for value in values:
        try:
            schema_id, payload = decode(value or b"")
            names[name_of(schema_id, split_message_index(payload)[0])] += 1
        except ValueError:  # not written by a serializer
            continue
    return names.most_common(1)[0][0] if names else None
