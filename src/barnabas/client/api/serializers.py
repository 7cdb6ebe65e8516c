"""Serializers and deserializers with a schema registry: Avro, JSON Schema and Protobuf."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from barnabas.client.api.errors import SerializationError
from barnabas.client.schemas import Schema, SchemaClient
from barnabas.client.schemas.serdes import Encoder, SchemaDecoder

LATEST = "latest"


def registry_serializer(
    url: str | None, schema: str, what: str, resources: ExitStack
) -> Callable[[str, Any], bytes]:
    """Serializer for the subject TOPIC-key or TOPIC-value.

    `latest` uses the subject's latest schema; any other text is a schema, which is registered first.
    """
    encoders: dict[str, Encoder] = {}
    client = resources.enter_context(SchemaClient(_checked(url, f"{what}_schema")))

    def encode(topic: str, value: Any) -> bytes:
        encoder = encoders.get(topic)
        try:
            if encoder is None:
                subject = f"{topic}-{what}"
                if schema != LATEST:
                    client.register(subject, parse_schema(schema))
                encoder = encoders[topic] = Encoder(client, subject)
            return encoder(value)
        except Exception as error:
            raise SerializationError(
                f"the {what} of a record for {topic} cannot be serialized: {error}"
            ) from error

    return encode


def registry_deserializer(url: str, resources: ExitStack) -> Callable[[bytes], Any]:
    """Deserializer of values that begin with a schema id."""
    return SchemaDecoder(resources.enter_context(SchemaClient(url)))


def parse_schema(text: str) -> Schema:
    """Avro, JSON Schema or Protobuf, by its text."""
    try:
        document = json.loads(text)
    except ValueError:
        return Schema("PROTOBUF", text)
    is_json_schema = isinstance(document, dict) and (
        "$schema" in document
        or "properties" in document
        or document.get("type") in ("object", "number", "integer")
    )
    return Schema("JSON" if is_json_schema else "AVRO", text)


def _checked(url: str | None, option: str) -> str:
    if url is None:
        raise ValueError(f'{option} needs schema_registry_url="http://..."')
    return url
