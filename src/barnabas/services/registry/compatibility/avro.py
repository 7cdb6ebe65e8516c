"""Avro: the rules of its specification, as the package `avro` checks them."""

from __future__ import annotations

from typing import Any

from barnabas.services.registry.formats.avro import AvroSchema


def problems(reader: AvroSchema, writer: AvroSchema) -> list[str]:
    """Why the reader cannot read all that the writer writes; nothing if it can."""
    from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType

    checker: Any = ReaderWriterCompatibilityChecker  # it has no types
    found = checker().get_compatibility(_schema(reader), _schema(writer))
    if found.compatibility is SchemaCompatibilityType.compatible:
        return []
    return sorted(found.messages) or ["the schemas do not match"]


def _schema(schema: AvroSchema) -> Any:
    """Names are not checked: those of older versions may be wrong."""
    from avro.name import Names
    from avro.schema import make_avsc_object

    names = Names(validate_names=False)
    *_, made = (
        make_avsc_object(_plain(document), names, validate_enum_symbols=False, validate_names=False)
        for document in (*schema.dependencies, schema.document)
    )
    return made


def _plain(node: Any) -> Any:
    """Without logical types: they change nothing in what can be read, and `avro` warns of those it does not know.

    An error is a record: `avro` does not compare errors.
    """
    if isinstance(node, list):
        return [_plain(one) for one in node]
    if not isinstance(node, dict):
        return node
    plain = {
        key: _plain(value) if key in ("type", "items", "values", "fields") else value
        for key, value in node.items()
        if key != "logicalType"
    }
    return plain | {"type": "record"} if plain.get("type") == "error" and "fields" in plain else plain
