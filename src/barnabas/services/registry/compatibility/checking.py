"""Checks a new schema against older versions of its subject, at one of the seven compatibility levels."""

from __future__ import annotations

from barnabas.services.registry.formats.parser import ParsedSchema
from barnabas.services.registry.limits import StepBudget, TooComplexError
from barnabas.services.registry.model import CompatibilityLevel, SchemaType


def find_problems(
    level: CompatibilityLevel,
    new: tuple[SchemaType, ParsedSchema],
    older: tuple[SchemaType, ParsedSchema],
    budget: StepBudget,
) -> list[str]:
    """Incompatibilities of two versions. TooComplexError if the comparison exceeds the budget."""
    if level is CompatibilityLevel.NONE:
        return []
    (kind, schema), (old_kind, old) = new, older
    if kind is not old_kind:
        return [f"Incompatible because of different schema type: {old_kind} was {kind}"]
    found: list[str] = []
    try:
        if level.is_backward:
            found += problems(kind, schema, old, budget)
        if level.is_forward:
            found += problems(kind, old, schema, budget)
    except RecursionError:
        raise TooComplexError from None
    return list(dict.fromkeys(found))


def problems(kind: SchemaType, reader: ParsedSchema, writer: ParsedSchema, budget: StepBudget) -> list[str]:
    """Reasons why the reader cannot read all data of the writer."""
    if kind is SchemaType.AVRO:
        from barnabas.services.registry.compatibility import avro as rules
    elif kind is SchemaType.JSON:
        from barnabas.services.registry.compatibility import json_schema as rules  # type: ignore[no-redef]
    else:
        from barnabas.services.registry.compatibility import protobuf as rules  # type: ignore[no-redef]
    found: list[str] = rules.problems(reader, writer, budget)  # type: ignore[arg-type]
    return found
