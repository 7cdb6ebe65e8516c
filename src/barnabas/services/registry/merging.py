"""Default and override metadata and rules that a configuration adds to the schemas of a subject."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from barnabas.services.registry.model import Json, SchemaText, Version, frozen_json
from barnabas.services.registry.state import RegistryState

_RULES = ("migrationRules", "domainRules", "encodingRules")


def with_defaults(state: RegistryState, subject: str, schema: SchemaText, live: list[Version]) -> SchemaText:
    """Merge metadata and rules. Precedence: override, schema (or else the previous version), default."""
    before = live[-1].schema if live else None
    metadata = _read(schema.metadata or (before.metadata if before else ""))
    rules = _read(schema.rule_set or (before.rule_set if before else ""))
    metadata = _merge(state.setting(subject, "defaultMetadata"), metadata)
    metadata = _merge(metadata, state.setting(subject, "overrideMetadata"))
    rules = _merge_rules(state.setting(subject, "defaultRuleSet"), rules)
    rules = _merge_rules(rules, state.setting(subject, "overrideRuleSet"))
    return replace(schema, metadata=frozen_json(metadata), rule_set=frozen_json(rules))


def properties(schema: SchemaText) -> Json:
    found = (_read(schema.metadata) or {}).get("properties")
    return found if isinstance(found, dict) else {}


def _read(text: str) -> Json | None:
    found: Json | None = json.loads(text) if text else None
    return found


def _merge(under: Json | None, over: Json | None) -> Json | None:
    """Merge by property; `over` takes precedence."""
    if not under or not over:
        return over or under
    merged: Json = {}
    for name in [*under, *(name for name in over if name not in under)]:
        below, above = under.get(name), over.get(name)
        if isinstance(below, dict) and isinstance(above, dict):
            merged[name] = {**below, **above}
        else:
            merged[name] = below if above is None else above
    return merged


def _merge_rules(under: Json | None, over: Json | None) -> Json | None:
    """Merge by rule name; `over` takes precedence."""
    if not under or not over:
        return over or under
    merged: dict[str, Any] = {}
    for kind in _RULES:
        listed = [one[kind] for one in (under, over) if isinstance(one.get(kind), list)]
        rules = {
            frozen_json(rule.get("name")): rule for one in listed for rule in one if isinstance(rule, dict)
        }
        if rules:
            merged[kind] = list(rules.values())
    return {**under, **over, **merged}
