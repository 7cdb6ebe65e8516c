"""Data model of the registry. Subjects include their context: `orders-value`, or `:.acme:orders-value`."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from barnabas.client.schemas.client import DEFAULT_CONTEXT, context_of, name_of, qualified
from barnabas.services.registry.errors import invalid_context, invalid_subject

GLOBAL_CONTEXT = ".__GLOBAL"  # newer clients write `:.__GLOBAL:` instead of an empty subject
MAX_VERSION = 2**31 - 1
MAX_ID = 2**31 - 1  # four bytes in front of each value, signed in Java
LATEST = -1

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

Json = dict[str, Any]

# Configuration fields and their types; unknown fields are rejected rather than dropped.
CONFIG_FIELDS: dict[str, type] = {
    "compatibility": str,
    "compatibilityLevel": str,
    "alias": str,
    "normalize": bool,
    "validateFields": bool,
    "validateRules": bool,
    "validateNames": bool,
    "compatibilityGroup": str,
    "compatibilityPolicy": str,
    "defaultMetadata": dict,
    "overrideMetadata": dict,
    "defaultRuleSet": dict,
    "overrideRuleSet": dict,
}


class SchemaType(StrEnum):
    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class CompatibilityLevel(StrEnum):
    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        return self.endswith("TRANSITIVE")

    @property
    def is_backward(self) -> bool:
        """True if the new schema must read data written with older schemas."""
        return self.startswith(("BACKWARD", "FULL"))

    @property
    def is_forward(self) -> bool:
        """True if older schemas must read data written with the new schema."""
        return self.startswith(("FORWARD", "FULL"))


class RegistryMode(StrEnum):
    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"

    @property
    def is_read_only(self) -> bool:
        return self.startswith("READONLY")


@dataclass(frozen=True, slots=True)
class Reference:
    name: str
    subject: str
    version: int

    def to_json(self) -> Json:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A schema with references, metadata and rules. Metadata and rules are JSON text, which is hashable."""

    type: SchemaType
    text: str
    references: tuple[Reference, ...] = ()
    metadata: str = ""
    rule_set: str = ""

    @property
    def guid(self) -> str:
        parts = [
            self.type,
            self.text,
            [one.to_json() for one in self.references],
            self.metadata,
            self.rule_set,
        ]
        digest = hashlib.md5(json.dumps(parts).encode(), usedforsecurity=False).digest()
        return str(uuid.UUID(bytes=digest))

    def to_json(self) -> Json:
        """Fields common to all responses and records, in Confluent's order: schemaType is omitted for AVRO."""
        document: Json = {}
        if self.type is not SchemaType.AVRO:
            document["schemaType"] = str(self.type)
        if self.references:
            document["references"] = [one.to_json() for one in self.references]
        if self.metadata:
            document["metadata"] = json.loads(self.metadata)
        if self.rule_set:
            document["ruleSet"] = json.loads(self.rule_set)
        document["schema"] = self.text
        return document


@dataclass(frozen=True, slots=True)
class Version:
    subject: str
    version: int
    id: int
    schema: SchemaText
    deleted: bool = False
    given_guid: str = ""  # guid in a record written by another registry

    @property
    def guid(self) -> str:
        return self.given_guid or self.schema.guid

    def to_json(self, *, with_guid: bool) -> Json:
        head: Json = {"subject": self.subject, "version": self.version, "id": self.id}
        document = head | ({"guid": self.guid} if with_guid else {}) | self.schema.to_json()
        return document | {"deleted": True} if self.deleted else document


def check_subject(subject: str) -> str:
    """Reject control characters and names reserved for contexts, as Confluent does."""
    name = name_of(subject)
    if not name.strip() or _CONTROL.search(subject) or context_of(subject) == GLOBAL_CONTEXT:
        raise invalid_subject(subject)
    return subject


def check_context(name: str) -> str:
    """Reject colons, which would make the boundary between context and subject ambiguous."""
    if ":" in name or _CONTROL.search(name):
        raise invalid_context(name)
    return name


def scope_of(subject: str) -> str | None:
    """Scope of a configuration: a subject, a context (`:.acme:`), or None for the global scope."""
    spelled = qualified(subject)
    if spelled in ("", f":{GLOBAL_CONTEXT}:", "__GLOBAL__"):
        return None
    return check_subject(spelled) if name_of(spelled) else spelled


def context_scope(context: str) -> str | None:
    return None if context == DEFAULT_CONTEXT else f":{context}:"


def frozen_json(value: Any) -> str:
    """Canonical JSON text of a value; empty for null and for an empty value."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")) if value else ""
