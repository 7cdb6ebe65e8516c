"""Values that begin with the id of their writer schema: schemas from a registry, each fetched once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from barnabas.client.schemas import RegistryAccount
from barnabas.client.schemas.client import RegistryError, Schema, SchemaClient, decode
from barnabas.client.schemas.formats import ready_schema
from barnabas.tables.errors import SchemaError
from barnabas.tables.shapes import REASON, ValueFormat

Sample = Callable[[], list[bytes | None]]
Written = Callable[[bytes], tuple[Any, bytes]]

_JSON_TYPES = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "null": pa.string(),
}


def writer_schemas(registry: RegistryAccount) -> Written:
    """Return a function that splits a value into its Avro writer schema and data. ValueError if it has no id."""
    client, parsed = registry.client(), dict[int, Any]()

    def split(value: bytes) -> tuple[Any, bytes]:
        schema_id, payload = decode(value)
        if schema_id not in parsed:
            with client:  # few schemas, and no owner that would close it later
                parsed[schema_id] = avro_schema(client, fetched(client, schema_id))
        return parsed[schema_id], payload

    return split


def fetched(client: SchemaClient, schema_id: int) -> Schema:
    try:
        return client.schema(schema_id)
    except RegistryError as error:
        if error.status == 404:
            raise ValueError(f"its schema {schema_id} is not in the registry") from error
        raise


def avro_schema(client: SchemaClient, schema: Schema) -> Any:
    """Parse the schema with its references."""
    return ready_schema(json.loads(avro_text(client, schema)))


def avro_text(client: SchemaClient, schema: Schema) -> str:
    """Self-contained JSON: a referenced schema is inlined at its first use."""
    if schema.type != "AVRO":
        raise ValueError(f"its schema is {schema.type}, not AVRO")
    if not schema.references:
        return schema.text
    named: dict[str, Any] = {}
    _load_references(client, schema, named)
    others = dict(named)
    return json.dumps(_inlined(ready_schema(json.loads(schema.text), named), others, set()))


def _inlined(node: Any, named: dict[str, Any], seen: set[str]) -> Any:
    if isinstance(node, str):
        if node not in named or node in seen:
            return node
        seen.add(node)
        return _inlined(named[node], named, seen)
    if isinstance(node, list):
        return [_inlined(inner, named, seen) for inner in node]
    if not isinstance(node, dict):
        return node
    kept = {name: value for name, value in node.items() if not name.startswith("__")}
    if "fields" in kept:
        kept["fields"] = [{**field, "type": _inlined(field["type"], named, seen)} for field in kept["fields"]]
    return {
        name: _inlined(value, named, seen) if name in ("items", "values") else value
        for name, value in kept.items()
    }


def _load_references(client: SchemaClient, schema: Schema, named: dict[str, Any]) -> None:
    for reference in schema.references:
        inner = client.version(reference.subject, reference.version).schema
        _load_references(client, inner, named)
        ready_schema(json.loads(inner.text), named)


def registered_format(registry: RegistryAccount, topic: str, sample: Sample = list) -> ValueFormat | None:
    """Use the latest schema of the subject `TOPIC-value`; None if the registry has none.

    A Protobuf schema may have several messages: the columns are those of the most frequent message in the sample.
    """
    with registry.client() as client:
        try:
            newest = client.latest(f"{topic}-value").schema
        except RegistryError as error:
            if error.status == 404:
                return None
            raise
        if newest.type == "AVRO":
            return _avro_format(client, newest, registry)
    if newest.type == "JSON":
        return ValueFormat("json", json_schema_fields(newest.text), reason_column=REASON, registry=registry)
    if newest.type == "PROTOBUF":
        from barnabas.tables.registered_protobuf import protobuf_format

        return protobuf_format(registry, topic, sample=sample)
    raise SchemaError(f"values of {topic} are {newest.type}: read the bytes with format='none'")


def _avro_format(client: SchemaClient, schema: Schema, registry: RegistryAccount) -> ValueFormat:
    from barnabas.tables.parsing.avro_columns import avro_fields

    text = avro_text(client, schema)
    return ValueFormat("avro", avro_fields(text), reason_column=REASON, avro_schema=text, registry=registry)


def newest_avro(registry: RegistryAccount, topic: str) -> str:
    """Latest schema of the subject `TOPIC-value`, with its references."""
    with registry.client() as client:
        return avro_text(client, client.latest(f"{topic}-value").schema)


def json_schema_fields(text: str) -> pa.Schema:
    """Properties of a JSON Schema; a property without a simple type becomes a STRING with the JSON text."""
    found = json.loads(text)
    if not isinstance(found, dict) or not isinstance(found.get("properties"), dict):
        raise SchemaError("the JSON Schema has no properties: give the fields by schema='...'")
    return pa.schema([(name, _json_type(inner)) for name, inner in found["properties"].items()])


def _json_type(schema: Any) -> pa.DataType:
    kind = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(kind, list):
        others = [name for name in kind if name != "null"]
        kind = others[0] if len(others) == 1 else None
    if kind == "array" and isinstance(schema.get("items"), dict):
        return pa.list_(pa.field("element", _json_type(schema["items"])))
    if kind == "object" and schema.get("properties"):
        return pa.struct([(name, _json_type(inner)) for name, inner in schema["properties"].items()])
    return _JSON_TYPES.get(kind or "", pa.string())
