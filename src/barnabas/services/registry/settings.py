"""Compatibility levels and modes of subjects, contexts and the global scope."""

from __future__ import annotations

from typing import Any

from barnabas.client.schemas.client import context_of, name_of
from barnabas.services.registry import errors, records
from barnabas.services.registry.model import CONFIG_FIELDS, CompatibilityLevel, Json, RegistryMode
from barnabas.services.registry.records import RegistryKey, RegistryRecord
from barnabas.services.registry.state import DEFAULT_LEVEL, RegistryState
from barnabas.services.registry.subjects import SubjectChange


def get_config(state: RegistryState, scope: str | None, *, default_to_global: bool) -> Json:
    found = state.config(scope)
    if found is None and scope is not None and not default_to_global:
        raise errors.no_config(scope)
    if scope is not None and default_to_global:
        found = {**(found or {}), "compatibilityLevel": str(state.level(scope))}
    return {"compatibilityLevel": str(DEFAULT_LEVEL)} | _shown(found or {})


def set_config(state: RegistryState, scope: str | None, body: Json) -> SubjectChange:
    """Update a configuration: null removes a field, omitted fields are unchanged."""
    mode = dict(body)
    for name, value in mode.items():
        if name not in CONFIG_FIELDS or not isinstance(value, CONFIG_FIELDS[name] | None):
            raise errors.unprocessable(f"the configuration has no {name!r} of this kind")
    level = mode.pop("compatibilityLevel", None) or mode.pop("compatibility", None)
    mode.pop("compatibility", None)
    answer = {name: value for name, value in body.items() if value is not None}
    merged = {**(state.config(scope) or {}), **mode}
    if level is not None:
        merged["compatibilityLevel"] = answer["compatibility"] = str(parse_level(level))
        answer.pop("compatibilityLevel", None)
    elif not mode:
        raise errors.invalid_level()
    _check_writable(state, scope)
    document = {"subject": scope} if scope else {}
    document |= {name: value for name, value in merged.items() if value is not None and name != "subject"}
    return SubjectChange([records.entry(RegistryKey(records.CONFIG, scope), document)], answer)


def delete_config(state: RegistryState, scope: str | None) -> SubjectChange:
    """Delete a configuration and return it with the now effective level (`compatibility`, as in Karapace)."""
    found = state.config(scope)
    if found is None and scope is not None:
        raise errors.no_config(scope)
    _check_writable(state, scope)
    entries = [] if found is None else [RegistryRecord(RegistryKey(records.CONFIG, scope), None)]
    after = DEFAULT_LEVEL if scope is None else state.level_around(scope)
    answer = {"compatibilityLevel": str(DEFAULT_LEVEL)} | _shown(found or {}) | {"compatibility": str(after)}
    return SubjectChange(entries, answer)


def get_mode(state: RegistryState, scope: str | None, *, default_to_global: bool) -> Json:
    found = state.mode(scope)
    if found is None and scope is not None and not default_to_global:
        raise errors.no_mode(scope)
    if found is None:
        found = RegistryMode.READWRITE if scope is None else state.effective_mode(scope)
    return {"mode": str(found)}


def set_mode(state: RegistryState, scope: str | None, wanted: Any, *, force: bool) -> SubjectChange:
    """Set a mode. IMPORT with existing schemas needs `force`, as it could reassign their ids."""
    if not isinstance(wanted, str) or wanted.upper() not in RegistryMode.__members__:
        raise errors.invalid_mode()
    mode = RegistryMode(wanted.upper())
    if mode is RegistryMode.READONLY_OVERRIDE and scope is not None:
        raise errors.invalid_mode()
    if (
        mode is RegistryMode.IMPORT
        and state.mode(scope) is not mode
        and not force
        and _has_schemas(state, scope)
    ):
        raise errors.not_permitted("Cannot import since found existing subjects")
    document = {"subject": scope} if scope else {}
    key = RegistryKey(records.MODE, scope)
    return SubjectChange([records.entry(key, {**document, "mode": str(mode)})], {"mode": str(mode)})


def delete_mode(state: RegistryState, scope: str | None) -> SubjectChange:
    found = state.mode(scope)
    if found is None and scope is not None:
        raise errors.no_mode(scope)
    entries = [] if found is None else [RegistryRecord(RegistryKey(records.MODE, scope), None)]
    return SubjectChange(entries, {"mode": str(found or RegistryMode.READWRITE)})


def parse_level(text: Any) -> CompatibilityLevel:
    if not isinstance(text, str) or text.upper() not in CompatibilityLevel.__members__:
        raise errors.invalid_level()
    return CompatibilityLevel(text.upper())


def _check_writable(state: RegistryState, scope: str | None) -> None:
    if state.effective_mode(scope or "").is_read_only:
        where = f"Subject {name_of(scope)} in context {context_of(scope)}" if scope else "The registry"
        raise errors.not_permitted(f"{where} is in read-only mode")


def _has_schemas(state: RegistryState, scope: str | None) -> bool:
    if scope is None:
        return any(True for _ in state.subjects())
    if name_of(scope):
        return bool(state.versions(scope))
    return any(context_of(subject) == context_of(scope) for subject in state.subjects())


def _shown(found: Json) -> Json:
    return {name: value for name, value in found.items() if name != "subject"}
