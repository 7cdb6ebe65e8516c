"""A parsed request, as passed to endpoints."""

from __future__ import annotations

import asyncio
import re
import urllib.parse
from dataclasses import dataclass, field
from typing import Any

from barnabas.client.schemas.client import DEFAULT_CONTEXT, context_of, qualified
from barnabas.services.registry import errors
from barnabas.services.registry.limits import limits
from barnabas.services.registry.model import (
    Json,
    SchemaText,
    SchemaType,
    check_subject,
    frozen_json,
    scope_of,
)
from barnabas.services.registry.service import SchemaService
from barnabas.services.registry.state import RegistryState, is_reference, read_references
from barnabas.services.registry.subjects import MAX_REFERENCES, DeletedFilter
from barnabas.web import CurrentUser

MAX_INT = 2**31 - 1
_NUMBER = re.compile(r"-?[0-9]{1,10}")
_OF_A_SCHEMA = frozenset(
    {
        *("schema", "schemaType", "references", "metadata", "ruleSet", "id", "version", "subject", "guid"),
        *("deleted", "ts", "schemaTags", "schemaTagsToAdd", "schemaTagsToRemove", "propagateSchemaTags"),
    }
)


@dataclass(frozen=True, slots=True)
class RawText:
    """Response body that is the schema text itself rather than JSON."""

    text: str


@dataclass(slots=True)
class RegistryRequest:
    service: SchemaService
    user: CurrentUser
    path: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    repeated: dict[str, list[str]] = field(default_factory=dict)  # all values of each query parameter
    body: Any = None
    context: str = DEFAULT_CONTEXT  # from a path below /contexts/NAME
    wants_guid: bool = False  # the client supports guids or ignores unknown fields
    is_large: bool = False  # parse the body in a thread

    @property
    def state(self) -> RegistryState:
        return self.service.state

    @property
    def subject(self) -> str:
        return check_subject(qualified(self.path["subject"], self.context))

    @property
    def scope(self) -> str | None:
        """Scope of a configuration request; a path with a context and without a subject means the context."""
        if "subject" in self.path:
            return scope_of(qualified(self.path["subject"], self.context))
        return None if self.context == DEFAULT_CONTEXT else scope_of(f":{self.context}:")

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() == "true"

    def query_list(self, name: str) -> list[str]:
        return self.repeated.get(name, [])

    @property
    def shown(self) -> DeletedFilter:
        return DeletedFilter(self.flag("deleted"), self.flag("deletedOnly"))

    def number(self, name: str, default: int) -> int:
        text = self.query.get(name, "")
        if not text:
            return default
        if not _NUMBER.fullmatch(text):
            raise errors.http_error(404)
        return int(text)

    def page(self, found: list[Any]) -> list[Any]:
        start, limit = max(0, self.number("offset", 0)), self.number("limit", -1)
        return found[start:] if limit < 0 else found[start : start + limit]

    def context_of_query(self) -> str:
        """Context of an id, from the query parameter `subject`."""
        subject = self.query.get("subject", "")
        return context_of(qualified(subject, self.context))

    def document(self) -> Json:
        if not isinstance(self.body, dict):
            raise errors.unprocessable("the body must be a JSON object")
        return self.body

    async def schema(self) -> tuple[SchemaText, tuple[int | None, int | None]]:
        """Schema in the body, with the id and version of an import."""
        return await asyncio.to_thread(self._schema) if self.is_large else self._schema()

    def _schema(self) -> tuple[SchemaText, tuple[int | None, int | None]]:
        document = self.document()
        for name in document:
            if name not in _OF_A_SCHEMA:
                raise errors.unprocessable(f"Unrecognized field: {name}")
        kind = document.get("schemaType") or "AVRO"
        if not isinstance(kind, str) or kind.upper() not in SchemaType.__members__:
            known = ", ".join(SchemaType)
            raise errors.invalid_schema(f"Invalid schema type {kind}. Schema types are {known}")
        text = document.get("schema")
        if not isinstance(text, str):
            raise errors.empty_schema()
        found = SchemaText(
            SchemaType(kind.upper()),
            text,
            read_references(_checked_references(document.get("references"))),
            _object(document, "metadata"),
            _object(document, "ruleSet"),
        )
        return found, (_given(document, "id"), _given(document, "version"))


def read_query(text: str) -> dict[str, list[str]]:
    try:
        return urllib.parse.parse_qs(text, keep_blank_values=True, max_num_fields=100)
    except ValueError:
        raise errors.bad_request("the query has too many fields") from None


def _given(document: Json, name: str) -> int | None:
    number = document.get(name)
    if number is None or number == -1:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number <= MAX_INT:
        raise errors.unprocessable(f"{name} must be a number from 1 to {MAX_INT}")
    return number


def _object(document: Json, name: str) -> str:
    value = document.get(name)
    if value is not None and not isinstance(value, dict):
        raise errors.unprocessable(f"{name} must be an object")
    text = frozen_json(value)
    if len(text) > limits.max_metadata_bytes:
        limit = limits.max_metadata_bytes
        raise errors.unprocessable(f"{name} has more than {limit} bytes (--limit max-metadata-bytes)")
    return text


def _checked_references(references: Any) -> Any:
    if references is None:
        return None
    if not isinstance(references, list):
        raise errors.unprocessable("references must be a list")
    if len(references) > MAX_REFERENCES:
        raise errors.invalid_schema(f"more than {MAX_REFERENCES} references")
    for one in references:
        if not is_reference(one):
            raise errors.unprocessable("a reference needs a name, a subject and a version")
    return references
