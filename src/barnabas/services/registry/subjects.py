"""Queries and changes of subjects. A change consists of records to write and the answer after their replay."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from barnabas.client.schemas.client import DEFAULT_CONTEXT, context_of, name_of, qualified
from barnabas.services.registry import errors, records
from barnabas.services.registry.errors import invalid_schema
from barnabas.services.registry.limits import limits
from barnabas.services.registry.model import (
    LATEST,
    MAX_ID,
    MAX_VERSION,
    Reference,
    RegistryMode,
    SchemaText,
    Version,
)
from barnabas.services.registry.records import RegistryKey, RegistryRecord, schema_entry
from barnabas.services.registry.state import RegistryState

# -- Direct and transitive references of a schema ------------------------------------------------------

MAX_REFERENCES = 1_000
DEEPEST = 64


class Dependency(NamedTuple):
    """A referenced schema and its reference name, in topological order."""

    name: str
    schema: SchemaText


def pinned(state: RegistryState, schema: SchemaText, context: str) -> SchemaText:
    """Replace "latest" in references by version numbers: a registered schema must not change later."""
    if all(one.version != LATEST for one in schema.references):
        return schema
    fixed = tuple(_pin(state, one, context) for one in schema.references)
    return replace(schema, references=fixed)


def dependencies(state: RegistryState, schema: SchemaText, context: str) -> tuple[Dependency, ...]:
    """Resolve references transitively. Error 42201 for missing, circular or too many references."""
    found: dict[str, Dependency] = {}
    _collect(state, schema, context, found, ())
    if sum(len(one.schema.text) for one in found.values()) > limits.max_referenced_bytes:
        limit = limits.max_referenced_bytes
        raise invalid_schema(f"its references have more than {limit} bytes (--limit max-referenced-bytes)")
    return tuple(found.values())


def _collect(
    state: RegistryState,
    schema: SchemaText,
    context: str,
    found: dict[str, Dependency],
    path: tuple[tuple[str, int], ...],
) -> None:
    if len(path) > DEEPEST:
        raise invalid_schema(f"references are nested deeper than {DEEPEST}")
    for reference in schema.references:
        target = _target(state, reference, context)
        version = (target.subject, target.version)
        if version in path:
            raise invalid_schema(f"circular reference {reference.name!r}")
        if reference.name in found:
            continue
        _collect(state, target.schema, context_of(target.subject), found, (*path, version))
        found[reference.name] = Dependency(reference.name, target.schema)
        if len(found) > MAX_REFERENCES:
            raise invalid_schema(f"more than {MAX_REFERENCES} references")


def _pin(state: RegistryState, reference: Reference, context: str) -> Reference:
    return replace(reference, version=_target(state, reference, context).version)


def _target(state: RegistryState, reference: Reference, context: str) -> Version:
    subject = qualified(reference.subject, context)
    if reference.version == LATEST:
        live = state.live(subject)
        found = live[-1] if live else None
    else:
        found = state.find(subject, reference.version)
    if found is None:
        raise invalid_schema(
            f'No schema reference found for subject "{reference.subject}" and version {reference.version}'
        )
    return found


@dataclass(frozen=True, slots=True)
class SubjectChange:
    entries: list[RegistryRecord]
    answer: Any


@dataclass(frozen=True, slots=True)
class DeletedFilter:
    """Selects live versions, all versions, or only deleted ones."""

    deleted: bool = False
    deleted_only: bool = False

    def __call__(self, version: Version) -> bool:
        if self.deleted_only:
            return version.deleted
        return self.deleted or not version.deleted


LIVE = DeletedFilter()
MAX_DIGITS = 20  # of a version, including leading zeros


def subjects_in(state: RegistryState, prefix: str, shown: DeletedFilter) -> list[str]:
    """Subjects in order of registration. `:*:` selects all contexts, `:.acme:` one, no prefix the default context."""
    everywhere = prefix.startswith(":*:")
    start = prefix.removeprefix(":*:")
    found = []
    for subject in state.subjects():
        compared = name_of(subject) if everywhere else subject
        if not everywhere and not prefix.startswith(":") and context_of(subject) != DEFAULT_CONTEXT:
            continue
        if compared.startswith(start) and any(map(shown, state.versions(subject).values())):
            found.append(subject)
    return found


def versions_of(state: RegistryState, subject: str, shown: DeletedFilter) -> list[Version]:
    found = [one for one in state.versions(subject).values() if shown(one)]
    if not found:
        raise errors.subject_not_found(subject)
    return found


def parse_version(text: str) -> int | None:
    """None for the latest version."""
    if text in ("latest", "-1"):
        return None
    is_number = text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS
    if not is_number or not 1 <= int(text) <= MAX_VERSION:
        raise errors.invalid_version(text[:100])
    return int(text)


def find_version(state: RegistryState, subject: str, text: str, shown: DeletedFilter = LIVE) -> Version:
    number = parse_version(text)
    versions = versions_of(state, subject, shown)
    if number is None:
        return versions[-1]
    for one in versions:
        if one.version == number:
            return one
    raise errors.version_not_found(number)


def check_writable(state: RegistryState, subject: str) -> RegistryMode:
    mode = state.effective_mode(subject)
    if mode.is_read_only:
        raise errors.not_permitted(
            f"Subject {name_of(subject)} in context {context_of(subject)} is in read-only mode"
        )
    return mode


def register(
    state: RegistryState,
    subject: str,
    schema: SchemaText,
    given_id: int | None = None,
    given_version: int | None = None,
) -> SubjectChange:
    """Register a version. A schema known in this context keeps its id; a new one gets the highest id plus one."""
    context = context_of(subject)
    known = state.id_of(context, schema)
    number = given_id or known or state.next_id(context)
    if number > MAX_ID:
        raise errors.store_error(f"no ids are left in context {context}: an import has taken {MAX_ID}")
    version = Version(subject, given_version or _next_version(state, subject), number, schema)
    entries = [schema_entry(version)]
    if context not in state.contexts():
        key = RegistryKey(records.CONTEXT, context)
        entries.insert(0, records.entry(key, {"tenant": records.TENANT, "context": context}))
    return SubjectChange(entries, version)


def import_version(
    state: RegistryState, subject: str, schema: SchemaText, given_id: int | None, given_version: int | None
) -> SubjectChange:
    """Import a version with ids of another registry (mode IMPORT); compatibility is not checked."""
    if given_id is None:
        raise errors.not_permitted(
            f"Subject {name_of(subject)} in context {context_of(subject)} is in import mode"
        )
    there = state.schema(context_of(subject), given_id)
    if there is not None and (there.text, there.type) != (schema.text, schema.type):
        raise errors.not_permitted(f"Overwrite new schema with id {given_id} is not permitted.")
    same = next(
        (one for one in state.live(subject) if one.id == given_id and given_version in (None, one.version)),
        None,
    )
    if same is not None:
        return SubjectChange([], same)
    taken = None if given_version is None else state.find(subject, given_version)
    if taken is not None and not taken.deleted and taken.id != given_id:
        raise errors.not_permitted(
            f"Version {given_version} of subject {subject} already has the id {taken.id}"
        )
    return register(state, subject, there or schema, given_id, given_version)


def delete_subject(state: RegistryState, subject: str, *, permanent: bool) -> SubjectChange:
    check_writable(state, subject)
    versions = list(state.versions(subject).values())
    if not versions:
        raise errors.subject_not_found(subject)
    live = [one for one in versions if not one.deleted]
    if permanent and live:
        raise errors.subject_not_soft_deleted(subject)
    if not permanent and not live:
        raise errors.subject_soft_deleted(subject)
    doomed = versions if permanent else live
    for one in doomed:
        _check_unused(state, one, versions)
    numbers = [one.version for one in doomed]
    if permanent:
        return SubjectChange([_tombstone(one) for one in doomed], numbers)
    key = RegistryKey(records.DELETE_SUBJECT, subject)
    entries = [records.entry(key, {"subject": subject, "version": numbers[-1]})]
    return SubjectChange(entries + _settings_removed(state, subject), numbers)


def delete_version(state: RegistryState, subject: str, text: str, *, permanent: bool) -> SubjectChange:
    check_writable(state, subject)
    number = parse_version(text)
    versions = state.versions(subject)
    if not versions:
        raise errors.subject_not_found(subject)
    if number is None:
        candidates = [one for one in versions.values() if one.deleted == permanent] or [*versions.values()]
        number = candidates[-1].version
    version = versions.get(number)
    if version is None:
        raise errors.version_not_found(number)
    if permanent and not version.deleted:
        raise errors.version_not_soft_deleted(subject, number)
    if not permanent and version.deleted:
        raise errors.version_soft_deleted(subject, number)
    _check_unused(state, version, [])
    if permanent:
        return SubjectChange([_tombstone(version)], number)
    entries = [schema_entry(version, deleted=True)]
    if len(state.live(subject)) == 1:
        entries += _settings_removed(state, subject)
    return SubjectChange(entries, number)


def _next_version(state: RegistryState, subject: str) -> int:
    return max(state.versions(subject), default=0) + 1


def _check_unused(state: RegistryState, version: Version, among: list[Version]) -> None:
    """Reject the deletion of a referenced version, unless its referrers are deleted too."""
    users = state.referrers(version.subject, version.version, deleted=True)
    if any(one not in among for one in users):
        raise errors.reference_exists(version.subject, version.version)


def _tombstone(version: Version) -> RegistryRecord:
    return RegistryRecord(RegistryKey(records.SCHEMA, version.subject, version.version), None)


def _settings_removed(state: RegistryState, subject: str) -> list[RegistryRecord]:
    """Tombstones for the configuration and mode of a deleted subject."""
    kinds = [(records.CONFIG, state.config(subject)), (records.MODE, state.mode(subject))]
    return [RegistryRecord(RegistryKey(kind, subject), None) for kind, found in kinds if found is not None]
