"""The columns of Protobuf messages, as Spark has them: by the newest schema of a registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from barnabas.spark.options import OptionError, Options

if TYPE_CHECKING:
    from barnabas.tables import ValueFormat


def protobuf_fields(options: Options) -> StructType:
    return from_arrow_schema(_registered(options).fields)


def protobuf_message(options: Options, fields: StructType) -> tuple[bytes | None, str]:
    """(descriptors, name) of the message that values are; an error when it lacks a field that is asked for."""
    found = _registered(options)
    for name in fields.names:
        if name not in found.fields.names:
            known = ", ".join(found.fields.names)
            raise OptionError(f"unknown column {name!r}: the message {found.message} has {known}")
    return found.descriptors, found.message


def subscribed_topic(options: Options, otherwise: str) -> str:
    """The one topic whose schema is asked for."""
    topic = options.text("subscribe") or ""
    if not topic or "," in topic:
        raise OptionError(otherwise)
    return topic


def _registered(options: Options) -> ValueFormat:
    registry = options.registry()
    topic = subscribed_topic(options, "value.format=protobuf needs 'subscribe' with one topic")
    from barnabas.client import ClientError
    from barnabas.tables import SchemaError, protobuf_format

    try:
        return protobuf_format(registry, topic, options.text("value.protobuf.message"))
    except (ClientError, SchemaError, ValueError) as error:
        raise OptionError(f"the schema of {topic} is not known: {error}") from error
