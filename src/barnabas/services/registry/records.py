"""Records of `_schemas`, byte for byte as Confluent and Karapace write them: compaction compares the keys' bytes.

A key that another program has spelled otherwise is found by what it says, and `State.raw_keys` remembers its bytes.
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
"""Of the record with the leader's address. Others write a NOOP in another order and with no value, so compaction keeps
this record, and they skip it as a NOOP."""


@dataclass(frozen=True, slots=True)
class RegistryKey:
    """`subject` is None for what is global; of a CONTEXT record it is the context."""

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
    """One record to write; no value is a tombstone."""

    key: RegistryKey
    value: bytes | None


def read_key(data: bytes | None) -> RegistryKey | None:
    """None for what is no key of ours: it is passed over."""
    document = read_value(data)
    if document is None:
        return None
    kind, subject = document.get("keytype"), document.get("subject")
    if kind == CONTEXT:
        subject = document.get("context")
    if not isinstance(kind, str) or not isinstance(subject, str | None):
        return None
    version = document.get("version", 0)
    return RegistryKey(kind, subject, version if kind == SCHEMA and isinstance(version, int) else 0)


def read_value(data: bytes | None) -> Json | None:
    try:
        document: Any = json.loads(data) if data else None
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


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
