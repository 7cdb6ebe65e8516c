"""Avro schemas for fastavro, as lenient as registries: a default may be of another type than its field."""

from __future__ import annotations

from typing import Any


def ready_schema(document: Any, named: dict[str, Any] | None = None, *, expand: bool = False) -> Any:
    """Parsed schema for fastavro. `named`: known named types; those of the schema are added."""
    import fastavro

    parse: Any = fastavro.parse_schema
    return parse(document, named, expand=expand, _ignore_default_error=True)
