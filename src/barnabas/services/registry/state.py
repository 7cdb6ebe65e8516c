"""State of the registry, replayed from `_schemas` record by record. Only `replay` and `note_id` change it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from barnabas.client.schemas.client import DEFAULT_CONTEXT, context_of, qualified
from barnabas.common.safe_logging import safe_logger
from barnabas.services.registry import records
from barnabas.services.registry.model import (
    CONFIG_FIELDS,
    MAX_ID,
    MAX_VERSION,
    CompatibilityLevel,
    Json,
    Reference,
    RegistryMode,
    SchemaText,
    SchemaType,
    Version,
    context_scope,
    frozen_json,
)
from barnabas.services.registry.records import RegistryKey

logger = safe_logger(__name__)

DEFAULT_LEVEL = CompatibilityLevel.BACKWARD
MAX_ANNOUNCED = 16  # producers whose last announcement is kept, including that of the registries
NOT_TRANSACTIONAL = -1
SubjectVersion = tuple[str, int]  # subject and version


@dataclass(slots=True)
class SchemaContext:
    """Schemas of a context; each context has its own id sequence."""

    schemas: dict[int, SchemaText] = field(default_factory=dict)
    ids: dict[SchemaText, int] = field(default_factory=dict)
    versions: dict[int, dict[SubjectVersion, None]] = field(default_factory=dict)  # versions with an id
    highest: int = 0  # highest id seen, including those of aborted records


class RegistryState:
    def __init__(self) -> None:
        self._subjects: dict[str, dict[int, Version]] = {}
        self._contexts: dict[str, SchemaContext] = {}
        self._named: dict[str, None] = {}  # contexts with a CONTEXT record
        self._referrers: dict[SubjectVersion, dict[SubjectVersion, None]] = {}
        self._guids: dict[str, dict[SubjectVersion, None]] = {}
        self._configs: dict[str | None, Json] = {}
        self._modes: dict[str | None, RegistryMode] = {}
        self._raw_keys: dict[RegistryKey, bytes] = {}
        self.announced: dict[int, str] = {}  # last announced leader address by producer id
        self.duplicates = 0  # ids assigned to two schemas; the first schema keeps the id

    # Queries.

    def subjects(self) -> Iterator[str]:
        return iter(self._subjects)

    def versions(self, subject: str) -> dict[int, Version]:
        """All versions of a subject in order, including deleted ones; empty for an unknown subject."""
        return self._subjects.get(subject, {})

    def live(self, subject: str) -> list[Version]:
        return [one for one in self.versions(subject).values() if not one.deleted]

    def find(self, subject: str, version: int) -> Version | None:
        return self.versions(subject).get(version)

    def schema(self, context: str, schema_id: int) -> SchemaText | None:
        return self._contexts[context].schemas.get(schema_id) if context in self._contexts else None

    def id_of(self, context: str, schema: SchemaText) -> int | None:
        """Id of a schema, even after a permanent delete: records with the id may still exist."""
        found = self._contexts[context].ids.get(schema) if context in self._contexts else None
        if found is None or self._contexts[context].schemas.get(found, schema) != schema:
            return None
        return found

    def next_id(self, context: str) -> int:
        return self.highest_id(context) + 1

    def highest_id(self, context: str) -> int:
        return self._contexts[context].highest if context in self._contexts else 0

    def users_of(self, context: str, schema_id: int) -> list[Version]:
        versions = self._contexts[context].versions.get(schema_id, {}) if context in self._contexts else {}
        return [self._subjects[subject][version] for subject, version in versions]

    def with_guid(self, guid: str) -> list[Version]:
        return [self._subjects[subject][version] for subject, version in self._guids.get(guid, ())]

    def referrers(self, subject: str, version: int, *, deleted: bool = False) -> list[Version]:
        """Versions that reference this one; `deleted` includes soft-deleted ones, which can still be found by id."""
        versions = self._referrers.get((subject, version), {})
        found = [self._subjects[name][number] for name, number in versions]
        return [one for one in found if deleted or not one.deleted]

    def contexts(self) -> list[str]:
        return sorted({DEFAULT_CONTEXT, *self._named, *map(context_of, self._subjects)})

    def config(self, scope: str | None) -> Json | None:
        return self._configs.get(scope)

    def mode(self, scope: str | None) -> RegistryMode | None:
        return self._modes.get(scope)

    def setting(self, subject: str, name: str) -> Any:
        """Configuration field of the subject, else of its context, else of the global scope."""
        for scope in (subject, context_scope(context_of(subject)), None):
            found = self._configs.get(scope, {}).get(name)
            if found is not None:
                return found
        return None

    def level(self, subject: str) -> CompatibilityLevel:
        found = self.setting(subject, "compatibilityLevel")
        return CompatibilityLevel(found) if found in CompatibilityLevel.__members__ else DEFAULT_LEVEL

    def level_around(self, scope: str) -> CompatibilityLevel:
        """Level inherited by a subject or context without its own level."""
        context = context_scope(context_of(scope))
        around = self._configs.get(context, {}) if context != scope else {}
        everybody = self._configs.get(None, {})
        found: Any = around.get("compatibilityLevel") or everybody.get("compatibilityLevel")
        return CompatibilityLevel(found) if found in CompatibilityLevel.__members__ else DEFAULT_LEVEL

    def effective_mode(self, subject: str) -> RegistryMode:
        """Mode of a subject; a global READONLY_OVERRIDE takes precedence."""
        everybody = self._modes.get(None, RegistryMode.READWRITE)
        if everybody is RegistryMode.READONLY_OVERRIDE:
            return everybody
        scope = context_scope(context_of(subject))
        return self._modes.get(subject) or self._modes.get(scope) or everybody

    def key_bytes(self, key: RegistryKey) -> bytes:
        """Key bytes as in the topic, if present there, so that compaction removes the replaced record."""
        return self._raw_keys.get(key) or key.encode()

    # Replay.

    def replay(
        self, key_bytes: bytes | None, value: bytes | None, producer_id: int = NOT_TRANSACTIONAL
    ) -> None:
        """Apply a record; `producer_id` is that of its transaction."""
        if key_bytes == records.LEADER_KEY:
            self._announce(records.read_leader(value), producer_id)
            return
        key = records.read_key(key_bytes)
        apply = _APPLY.get(key.kind)
        if apply is None or key_bytes is None:
            return
        apply(self, key, records.read_value(value))
        canonical = key.encode()
        if key_bytes != canonical:
            self._raw_keys[key] = key_bytes

    def note_id(self, key_bytes: bytes | None, value: bytes | None) -> None:
        """Reserve the id of an aborted record, which other registries may have read."""
        key, document = records.read_key(key_bytes), records.read_value(value)
        if key.kind == records.SCHEMA and key.subject and document:
            number = document.get("id")
            if isinstance(number, int):
                context = self._context(context_of(qualified(key.subject)))
                context.highest = max(context.highest, number)

    def _announce(self, url: str | None, producer_id: int) -> None:
        if url is None or producer_id == NOT_TRANSACTIONAL:
            return
        self.announced.pop(producer_id, None)
        self.announced[producer_id] = url
        if len(self.announced) > MAX_ANNOUNCED:
            del self.announced[next(iter(self.announced))]

    def _schema(self, key: RegistryKey, document: Json | None) -> None:
        if not key.subject:
            return
        subject = qualified(key.subject)
        if document is None:
            self._forget(subject, key.version)
            return
        version = _read_version(subject, key.version, document)
        if version is not None:
            self._put(version)

    def _put(self, version: Version) -> None:
        subject = version.subject
        versions = self._subjects.setdefault(subject, {})
        old = versions.get(version.version)
        if old is not None:
            self._unlink(old)
        versions[version.version] = version
        if len(versions) > 1 and next(reversed(versions)) < max(versions):
            self._subjects[subject] = dict(sorted(versions.items()))
        key = (subject, version.version)
        context = self._context(context_of(subject))
        context.highest = max(context.highest, version.id)
        if (known := context.schemas.setdefault(version.id, version.schema)) != version.schema:
            self._report(version, known)
        context.ids.setdefault(version.schema, version.id)
        context.versions.setdefault(version.id, {})[key] = None
        self._guids.setdefault(version.guid, {})[key] = None
        for target in _targets(version):
            self._referrers.setdefault(target, {})[key] = None
        if old is not None:
            self._drop_unused(old)

    def _report(self, version: Version, known: SchemaText) -> None:
        self.duplicates += 1
        logger.error(
            "schema id %d belongs to two schemas, also to version %d of %s; the first one keeps it. "
            "Two registries wrote to this topic at the same time, before this one: register the schema again",
            version.id,
            version.version,
            version.subject,
        )

    def _forget(self, subject: str, number: int) -> None:
        old = self._subjects.get(subject, {}).pop(number, None)
        if old is None:
            return
        self._unlink(old)
        self._drop_unused(old)
        if not self._subjects[subject]:
            del self._subjects[subject]

    def _unlink(self, old: Version) -> None:
        key = (old.subject, old.version)
        _discard(self._context(context_of(old.subject)).versions, old.id, key)
        _discard(self._guids, old.guid, key)
        for target in _targets(old):
            _discard(self._referrers, target, key)

    def _drop_unused(self, old: Version) -> None:
        """Drop an id without versions; `highest` prevents its reuse."""
        context = self._context(context_of(old.subject))
        if old.id not in context.versions:
            context.schemas.pop(old.id, None)

    def _config(self, key: RegistryKey, document: Json | None) -> None:
        """Apply a configuration, ignoring fields of the wrong type."""
        kept = {} if document is None else document
        kept = {
            name: value for name, value in kept.items() if isinstance(value, CONFIG_FIELDS.get(name, object))
        }
        _set(self._configs, _scope(key), None if document is None else kept)

    def _mode(self, key: RegistryKey, document: Json | None) -> None:
        mode = None if document is None else RegistryMode(str(document.get("mode")))
        _set(self._modes, _scope(key), mode)

    def _delete_subject(self, key: RegistryKey, document: Json | None) -> None:
        """Soft-delete all versions up to the given one."""
        last = (document or {}).get("version")
        if not key.subject or not isinstance(last, int):
            return
        subject = qualified(key.subject)
        for number, version in list(self.versions(subject).items()):
            if number <= last:
                self._subjects[subject][number] = replace(version, deleted=True)

    def _clear_subject(self, key: RegistryKey, document: Json | None) -> None:
        if key.subject and document is not None:
            subject = qualified(key.subject)
            for number in list(self.versions(subject)):
                self._forget(subject, number)

    def _named_context(self, key: RegistryKey, document: Json | None) -> None:
        if key.subject and key.subject.startswith("."):
            _set(self._named, key.subject, None if document is None else True)

    def _context(self, name: str) -> SchemaContext:
        return self._contexts.setdefault(name, SchemaContext())


_APPLY: dict[str, Callable[[RegistryState, RegistryKey, Json | None], None]] = {
    records.SCHEMA: RegistryState._schema,
    records.CONFIG: RegistryState._config,
    records.MODE: RegistryState._mode,
    records.DELETE_SUBJECT: RegistryState._delete_subject,
    records.CLEAR_SUBJECT: RegistryState._clear_subject,
    records.CONTEXT: RegistryState._named_context,
}


def _scope(key: RegistryKey) -> str | None:
    return qualified(key.subject) if key.subject else None


def _set(where: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        where.pop(key, None)
    else:
        where[key] = value


def _discard(where: dict[Any, dict[SubjectVersion, None]], key: Any, entry: SubjectVersion) -> None:
    if key in where:
        where[key].pop(entry, None)
        if not where[key]:
            del where[key]


def _targets(version: Version) -> list[SubjectVersion]:
    context = context_of(version.subject)
    return [(qualified(one.subject, context), one.version) for one in version.schema.references]


def _read_version(subject: str, number: int, document: Json) -> Version | None:
    """None for a malformed record."""
    schema_id: Any = document.get("id")
    text: Any = document.get("schema")
    kind, guid = document.get("schemaType") or "AVRO", document.get("guid") or ""
    references = read_references(document.get("references"))
    is_numbered = _is_number(schema_id, MAX_ID) and _is_number(number, MAX_VERSION)
    is_text = isinstance(text, str) and isinstance(kind, str) and isinstance(guid, str)
    if not is_numbered or not is_text or kind not in SchemaType.__members__:
        logger.warning("cannot parse version %d of subject %s: skipped", number, subject)
        return None
    schema = SchemaText(
        SchemaType(kind),
        text,
        references,
        _frozen_object(document.get("metadata")),
        _frozen_object(document.get("ruleSet")),
    )
    return Version(subject, number, schema_id, schema, document.get("deleted") is True, guid)


def _is_number(value: Any, largest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= largest


def _frozen_object(value: Any) -> str:
    return frozen_json(value) if isinstance(value, dict) else ""


def read_references(documents: Any) -> tuple[Reference, ...]:
    """Complete references; anything else is ignored."""
    listed = documents if isinstance(documents, list) else ()
    return tuple(
        Reference(one["name"], one["subject"], one["version"]) for one in listed if is_reference(one)
    )


def is_reference(one: Any) -> bool:
    if not isinstance(one, dict):
        return False
    version = one.get("version")
    named = isinstance(one.get("name"), str) and isinstance(one.get("subject"), str)
    return named and isinstance(version, int) and not isinstance(version, bool)
