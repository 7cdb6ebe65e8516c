"""A new schema beside the older versions of its subject, at one of the seven levels."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.services.registry.errors import invalid_schema
from barnabas.services.registry.formats.parsing import ParsedSchema
from barnabas.services.registry.model import Level, SchemaType

Known = tuple[SchemaType, ParsedSchema]


def find_problems(level: Level, kind: SchemaType, new: ParsedSchema, older: Sequence[Known]) -> list[str]:
    """`older` from the oldest to the newest. The newest one that does not fit says why, as with Confluent."""
    compared = older if level.is_transitive else older[-1:]
    for old_kind, old in reversed(compared):
        try:
            found = _between(level, kind, new, old_kind, old)
        except RecursionError:
            raise invalid_schema("it is nested too deeply to be compared") from None
        if found:
            return found
    return []


def _between(
    level: Level, kind: SchemaType, new: ParsedSchema, old_kind: SchemaType, old: ParsedSchema
) -> list[str]:
    if level is Level.NONE:
        return []
    if kind is not old_kind:
        return [f"Incompatible because of different schema type: {old_kind} was {kind}"]
    found: list[str] = []
    if level.is_backward:
        found += problems(kind, new, old)
    if level.is_forward:
        found += problems(kind, old, new)
    return list(dict.fromkeys(found))


def problems(kind: SchemaType, reader: ParsedSchema, writer: ParsedSchema) -> list[str]:
    """Why a reader with one schema cannot read everything that is written with another."""
    if kind is SchemaType.AVRO:
        from barnabas.services.registry.compatibility import avro as rules
    elif kind is SchemaType.JSON:
        from barnabas.services.registry.compatibility import json_schema as rules  # type: ignore[no-redef]
    else:
        from barnabas.services.registry.compatibility import protobuf as rules  # type: ignore[no-redef]
    found: list[str] = rules.problems(reader, writer)  # type: ignore[arg-type]
    return found
