"""One request as an endpoint sees it."""

from __future__ import annotations

import urllib.parse
from dataclasses import dataclass, field
from typing import Any

from barnabas.services.registry import errors
from barnabas.services.registry.access import Visitor
from barnabas.services.registry.model import (
    DEFAULT_CONTEXT,
    Json,
    SchemaText,
    SchemaType,
    check_subject,
    context_of,
    frozen_json,
    qualified,
    scope_of,
)
from barnabas.services.registry.subjects import MOST_REFERENCES
from barnabas.services.registry.service import SchemaService
from barnabas.services.registry.state import State, read_references
from barnabas.services.registry.subjects import Shown

LARGEST_INT = 2**31 - 1
_OF_A_SCHEMA = frozenset(
    {
        *("schema", "schemaType", "references", "metadata", "ruleSet", "id", "version", "subject", "guid"),
        *("deleted", "ts", "schemaTags", "schemaTagsToAdd", "schemaTagsToRemove", "propagateSchemaTags"),
    }
)


@dataclass(frozen=True, slots=True)
class RawText:
    """An answer that is a schema itself, not JSON around it."""

    text: str


@dataclass(slots=True)
class Request:
    service: SchemaService
    visitor: Visitor
    path: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    repeated: dict[str, list[str]] = field(default_factory=dict)  # the same with all values of a name
    body: Any = None
    context: str = DEFAULT_CONTEXT  # of a path that begins with /contexts/NAME
    wants_guid: bool = False  # the client knows of it, or takes what it does not know

    @property
    def state(self) -> State:
        return self.service.state

    @property
    def subject(self) -> str:
        return check_subject(qualified(self.path["subject"], self.context))

    @property
    def scope(self) -> str | None:
        """Whose configuration is meant: with a context in the path and no subject, the context's."""
        if "subject" in self.path:
            return scope_of(qualified(self.path["subject"], self.context))
        return None if self.context == DEFAULT_CONTEXT else f":{self.context}:"

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() == "true"

    def query_list(self, name: str) -> list[str]:
        return self.repeated.get(name, [])

    @property
    def shown(self) -> Shown:
        return Shown(self.flag("deleted"), self.flag("deletedOnly"))

    def number(self, name: str, default: int) -> int:
        text = self.query.get(name, "")
        try:
            return int(text) if text else default
        except ValueError:
            raise errors.http_error(404) from None

    def page(self, found: list[Any]) -> list[Any]:
        start, limit = self.number("offset", 0), self.number("limit", -1)
        return found[start:] if limit < 0 else found[start : start + limit]

    def context_of_query(self) -> str:
        """`subject=` says in which context an id is meant."""
        subject = self.query.get("subject", "")
        return context_of(qualified(subject, self.context))

    def document(self) -> Json:
        if not isinstance(self.body, dict):
            raise errors.unprocessable("the body must be a JSON object")
        return self.body

    def schema(self) -> tuple[SchemaText, tuple[int | None, int | None]]:
        """The schema in the body, and the id and the version that an import gives it."""
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
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number <= LARGEST_INT:
        raise errors.unprocessable(f"{name} must be a number from 1 to {LARGEST_INT}")
    return number


def _object(document: Json, name: str) -> str:
    value = document.get(name)
    if value is not None and not isinstance(value, dict):
        raise errors.unprocessable(f"{name} must be an object")
    return frozen_json(value)


def _checked_references(references: Any) -> Any:
    if references is None:
        return None
    if not isinstance(references, list):
        raise errors.unprocessable("references must be a list")
    if len(references) > MOST_REFERENCES:
        raise errors.invalid_schema(f"more than {MOST_REFERENCES} references")
    for one in references:
        if not isinstance(one, dict) or not _is_reference(one):
            raise errors.unprocessable("a reference has a name, a subject and a version")
    return references


def _is_reference(one: Json) -> bool:
    version = one.get("version")
    named = isinstance(one.get("name"), str) and isinstance(one.get("subject"), str)
    return named and isinstance(version, int) and not isinstance(version, bool)
