"""Avro schemas for fastavro, as registries let them through: a default may be of another type than its field."""

from __future__ import annotations

from typing import Any


def ready_schema(document: Any, named: dict[str, Any] | None = None, *, expand: bool = False) -> Any:
    """What fastavro reads and writes with. `named`: types that others have defined, to which it adds its own."""
    import fastavro

    parse: Any = fastavro.parse_schema
    return parse(document, named, expand=expand, _ignore_default_error=True)
