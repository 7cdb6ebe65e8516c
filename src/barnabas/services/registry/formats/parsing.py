"""From a text to a schema of its language, once: what was parsed is kept for the next comparison."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from barnabas.services.registry.errors import empty_schema, unreadable_schema
from barnabas.services.registry.formats.documents import SchemaSyntaxError
from barnabas.services.registry.model import SchemaText, SchemaType
from barnabas.services.registry.references import Dependency

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
