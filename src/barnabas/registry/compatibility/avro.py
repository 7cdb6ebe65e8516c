"""Avro: the rules of its specification, as the package `avro` checks them."""

from __future__ import annotations

from typing import Any

from barnabas.registry.formats.avro import AvroSchema


def problems(reader: AvroSchema, writer: AvroSchema) -> list[str]:
    """Why the reader cannot read all that the writer writes; nothing if it can."""
    from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType

    checker: Any = ReaderWriterCompatibilityChecker  # it has no types
    found = checker().get_compatibility(_schema(reader), _schema(writer))
    if found.compatibility is SchemaCompatibilityType.compatible:
        return []
    return sorted(found.messages) or ["the schemas do not match"]


def _schema(schema: AvroSchema) -> Any:
    from avro.name import Names
    from avro.schema import make_avsc_object

    names = Names()
    for document in schema.dependencies:
        make_avsc_object(_plain(document), names)
    return make_avsc_object(_plain(schema.document), names)


def _plain(node: Any) -> Any:
    """Without logical types: they change nothing in what can be read, and `avro` warns of those it does not know."""
    if isinstance(node, list):
        return [_plain(one) for one in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _plain(value) if key in ("type", "items", "values", "fields") else value
        for key, value in node.items()
        if key != "logicalType"
    }
