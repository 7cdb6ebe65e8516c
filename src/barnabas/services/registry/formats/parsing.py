"""From a text to a schema of its language, once: what was parsed is kept for the next comparison."""

from __future__ import annotations

import json
from typing import Any

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from barnabas.services.registry.errors import empty_schema, unreadable_schema
from barnabas.services.registry.model import SchemaText, SchemaType
from barnabas.services.registry.subjects import Dependency


# -- JSON from strangers: bounded in depth, and with a place to point at when it is wrong --------------

DEEPEST = 64


class SchemaSyntaxError(Exception):
    """Something is wrong at a place such as `$.fields[2].type`; at none if the reason has it."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{reason} (at {where})" if where else reason)


def read_json(text: str) -> Any:
    """The value, with the keys of objects in their order; SchemaSyntaxError says the line and the column."""
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise SchemaSyntaxError("$", f"it is nested deeper than {DEEPEST}") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise SchemaSyntaxError(where, f"this is no JSON: {error.msg}") from None
    except ValueError as error:
        raise SchemaSyntaxError("$", f"this is no JSON: {error}") from None
    check_depth(value)
    return value


def check_depth(value: Any, deepest: int = DEEPEST) -> None:
    level, depth = [value], 0
    while level:
        if depth > deepest:
            raise SchemaSyntaxError("$", f"it is nested deeper than {deepest}")
        level = [child for one in level for child in children(one)]
        depth += 1


def children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def compact(value: Any, *, sort_keys: bool = False) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")



MOST_KEPT = 500  # parsed schemas


class ParsedSchema(Protocol):
    @property
    def text(self) -> str:
        """As it is registered."""
        ...

    @property
    def identity(self) -> str:
        """Texts with the same identity are the same schema."""
        ...

    @property
    def fault(self) -> str:
        """Why it is read only where it is registered already: other registries let it through. Else nothing."""
        ...

    def normalized(self) -> str:
        """One text for all that differ in nothing that matters."""
        ...

    def rendered(self, wanted: str) -> str:
        """For `format=` of a request; a format that the language does not have is the text itself."""
        ...


def parse(schema: SchemaText, dependencies: Sequence[Dependency]) -> ParsedSchema:
    """RegistryError 42201 says what is wrong, and where. May take long, and starts protoc: for a thread."""
    if not schema.text.strip():
        raise empty_schema()
    try:
        return _parse(schema.type, schema.text, tuple((one.name, one.schema.text) for one in dependencies))
    except SchemaSyntaxError as error:
        raise unreadable_schema(schema.type, str(error)) from None
    except RecursionError:
        raise unreadable_schema(schema.type, "it is nested too deeply") from None


@lru_cache(MOST_KEPT)
def _parse(kind: SchemaType, text: str, dependencies: tuple[tuple[str, str], ...]) -> ParsedSchema:
    if kind is SchemaType.AVRO:
        from barnabas.services.registry.formats.avro import parse_avro

        return parse_avro(text, [one for _, one in dependencies])
    if kind is SchemaType.JSON:
        from barnabas.services.registry.formats.json_schema import parse_json_schema

        return parse_json_schema(text, dict(dependencies))
    from barnabas.services.registry.formats.protobuf import parse_protobuf

    return parse_protobuf(text, dict(dependencies))
