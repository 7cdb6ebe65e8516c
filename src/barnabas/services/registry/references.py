"""The schemas that a schema refers to, and those that they refer to."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from barnabas.services.registry.errors import invalid_schema
from barnabas.services.registry.model import LATEST, Reference, SchemaText, Version, context_of, qualified
from barnabas.services.registry.state import State

MOST_REFERENCES = 1_000
DEEPEST = 64


class Dependency(NamedTuple):
    """A schema under the name that another one calls it by; each comes after those that it needs itself."""

    name: str
    schema: SchemaText


def pinned(state: State, schema: SchemaText, context: str) -> SchemaText:
    """The same with versions in place of "latest": what is registered must not change later."""
    if all(one.version != LATEST for one in schema.references):
        return schema
    fixed = tuple(_pin(state, one, context) for one in schema.references)
    return replace(schema, references=fixed)


def dependencies(state: State, schema: SchemaText, context: str) -> tuple[Dependency, ...]:
    """RegistryError 42201 for a reference that leads nowhere or back to itself, and for too many of them."""
    found: dict[str, Dependency] = {}
    _collect(state, schema, context, found, ())
    return tuple(found.values())


def _collect(
    state: State,
    schema: SchemaText,
    context: str,
    found: dict[str, Dependency],
    path: tuple[tuple[str, int], ...],
) -> None:
    if len(path) > DEEPEST:
        raise invalid_schema(f"references are nested deeper than {DEEPEST}")
    for reference in schema.references:
        target = _target(state, reference, context)
        place = (target.subject, target.version)
        if place in path:
            raise invalid_schema(f"the reference {reference.name!r} leads back to itself")
        if reference.name in found:
            continue
        _collect(state, target.schema, context_of(target.subject), found, (*path, place))
        found[reference.name] = Dependency(reference.name, target.schema)
        if len(found) > MOST_REFERENCES:
            raise invalid_schema(f"more than {MOST_REFERENCES} references")


def _pin(state: State, reference: Reference, context: str) -> Reference:
    return replace(reference, version=_target(state, reference, context).version)


def _target(state: State, reference: Reference, context: str) -> Version:
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
