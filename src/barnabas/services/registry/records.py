"""Records of `_schemas`, byte-identical to those of Confluent and Karapace: compaction compares keys by bytes.

Keys that another program serialized differently are parsed, and `RegistryState` keeps their original bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from barnabas.services.registry.model import Json, Version

SCHEMA, CONFIG, MODE, NOOP = "SCHEMA", "CONFIG", "MODE", "NOOP"
DELETE_SUBJECT, CLEAR_SUBJECT, CONTEXT = "DELETE_SUBJECT", "CLEAR_SUBJECT", "CONTEXT"
TENANT = "default"
LEADER_KEY = b'{"magic":0,"keytype":"NOOP"}'
"""Key of the record with the leader's address. NOOP keys of other registries have another field order, so compaction
keeps this record, and other registries skip it as a NOOP."""


@dataclass(frozen=True, slots=True)
class RegistryKey:
    """Record key. `subject` is None for the global scope; for a CONTEXT record it is the context."""

    kind: str
    subject: str | None = None
    version: int = 0

    def encode(self) -> bytes:
        if self.kind == NOOP:
            return _compact({"keytype": NOOP, "magic": 0})
        if self.kind == CONTEXT:
            return _compact({"keytype": CONTEXT, "tenant": TENANT, "context": self.subject, "magic": 0})
        if self.kind == SCHEMA:
            return _compact({"keytype": SCHEMA, "subject": self.subject, "version": self.version, "magic": 1})
        return _compact({"keytype": self.kind, "subject": self.subject, "magic": 0})


@dataclass(frozen=True, slots=True)
class RegistryRecord:
    """A record to write; a tombstone if it has no value."""

    key: RegistryKey
    value: bytes | None


class MalformedRecordError(ValueError):
    """Key or value is not what any registry writes."""


def read_key(data: bytes | None) -> RegistryKey:
    """The key; its kind may be unknown."""
    document = read_value(data) or {}
    kind, subject = document.get("keytype"), document.get("subject")
    if kind == CONTEXT:
        subject = document.get("context")
    if not isinstance(kind, str) or not isinstance(subject, str | None):
        raise MalformedRecordError("its key has no valid keytype and subject")
    version = document.get("version", 0)
    return RegistryKey(kind, subject, version if kind == SCHEMA and isinstance(version, int) else 0)


def read_value(data: bytes | None) -> Json | None:
    """None for a tombstone, which deletes; other bytes that are not a JSON object must not."""
    if not data:
        return None
    try:
        document: Any = json.loads(data)
    except ValueError as error:
        raise MalformedRecordError(f"not valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise MalformedRecordError("not a JSON object")
    return document


def leader_value(url: str) -> bytes:
    return _compact({"leader": url})


def read_leader(value: bytes | None) -> str | None:
    found = (read_value(value) or {}).get("leader")
    return found if isinstance(found, str) else None


def schema_entry(version: Version, *, deleted: bool | None = None) -> RegistryRecord:
    document: Json = {"subject": version.subject, "version": version.version, "id": version.id}
    document["guid"] = version.guid
    document |= version.schema.to_json()
    document["deleted"] = version.deleted if deleted is None else deleted
    return RegistryRecord(RegistryKey(SCHEMA, version.subject, version.version), _compact(document))


def entry(key: RegistryKey, document: Json) -> RegistryRecord:
    return RegistryRecord(key, _compact(document))


def _compact(document: Json) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
