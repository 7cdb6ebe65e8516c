"""Operations of the API on the state, the schema formats and the topic. `work` parses and compares schemas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from barnabas.client.schemas.client import context_of
from barnabas.services.registry import errors, settings, subjects
from barnabas.services.registry.merging import properties, with_defaults
from barnabas.services.registry.model import (
    CompatibilityLevel,
    Json,
    RegistryMode,
    SchemaText,
    SchemaType,
    Version,
)
from barnabas.services.registry.state import RegistryState
from barnabas.services.registry.store import SchemaStore
from barnabas.services.registry.subjects import DeletedFilter, Dependency, SubjectChange, dependencies, pinned
from barnabas.services.registry.work import SchemaFacts, SchemaWork


@dataclass(frozen=True, slots=True)
class Submitted:
    """A schema sent by a client. `texts` are the forms in which it may be registered, the stored form first."""

    schema: SchemaText
    needed: tuple[Dependency, ...]
    facts: SchemaFacts
    texts: tuple[str, ...]
    given_id: int | None = None
    given_version: int | None = None


class SchemaService:
    def __init__(self, store: SchemaStore) -> None:
        self.store = store
        self.work = SchemaWork()

    @property
    def state(self) -> RegistryState:
        return self.store.state

    async def submit(
        self,
        subject: str,
        schema: SchemaText,
        *,
        normalize: bool,
        specified_id: tuple[int | None, int | None] = (None, None),
    ) -> Submitted:
        """Parse a schema and resolve its references. The stored form may differ from the submitted text."""
        context = context_of(subject)
        fixed = pinned(self.state, schema, context)
        needed = dependencies(self.state, fixed, context)
        normalize = normalize or self.state.setting(subject, "normalize") is True
        found = await self.work.submission(fixed, needed, normalize=normalize)
        texts = tuple(dict.fromkeys([found.kept, found.text, schema.text]))
        return Submitted(replace(fixed, text=found.kept), needed, found.facts, texts, *specified_id)

    async def register(self, subject: str, submitted: Submitted) -> Version:
        """Version with this schema: an existing one, or a new one that is compatible with the previous versions."""
        found = self._registered(subject, submitted)
        if found is not None:
            return found
        if self.store.leads:
            await self._compare_ahead(subject, submitted)

        async def decide(state: RegistryState) -> SubjectChange:
            mode = subjects.check_writable(state, subject)
            specified_id = (submitted.given_id, submitted.given_version)
            if mode is RegistryMode.IMPORT:
                return subjects.import_version(state, subject, submitted.schema, *specified_id)
            return await self._decide(state, subject, submitted)

        version: Version = await self.store.change(decide)
        return version

    async def _compare_ahead(self, subject: str, submitted: Submitted) -> None:
        """Run slow comparisons and cache their results before taking the lock for changes."""
        live = self.state.live(subject)
        schema = with_defaults(self.state, subject, submitted.schema, live)
        if await self._same(submitted, schema, live) is None:
            await self.problems(subject, submitted, self._compared(subject, schema, live), None)

    async def _decide(self, state: RegistryState, subject: str, submitted: Submitted) -> SubjectChange:
        live = state.live(subject)
        schema = with_defaults(state, subject, submitted.schema, live)
        there = await self._same(submitted, schema, live)
        if there is not None:
            return SubjectChange([], _with_given_id(there, submitted.given_id))
        if submitted.given_id is not None:
            where = f"Subject {subject} in context {context_of(subject)}"
            raise errors.not_permitted(f"{where} is not in import mode")
        await self.check_new(subject, submitted)
        found = await self.problems(subject, submitted, self._compared(subject, schema, live), None)
        if found:
            raise errors.incompatible(str(state.level(subject)), found)
        deleted = [one for one in state.versions(subject).values() if one.deleted]
        before = await self._same(submitted, schema, deleted)
        if before is not None:
            return subjects.register(state, subject, before.schema, before.id)
        return subjects.register(state, subject, schema)

    def _registered(self, subject: str, submitted: Submitted) -> Version | None:
        """Existing version, found without the leader: most producers register an existing schema."""
        if self.state.effective_mode(subject) is not RegistryMode.READWRITE or submitted.given_id is not None:
            return None
        live = self.state.live(subject)
        schema = with_defaults(self.state, subject, submitted.schema, live)
        return _with_text(submitted, schema, live)

    async def lookup(self, subject: str, submitted: Submitted, shown: DeletedFilter) -> Version:
        versions = subjects.versions_of(self.state, subject, shown)
        found = await self._same(submitted, submitted.schema, versions)
        if found is None and not submitted.schema.metadata and not submitted.schema.rule_set:
            bare = [replace(one, schema=replace(one.schema, metadata="", rule_set="")) for one in versions]
            same = await self._same(submitted, submitted.schema, bare)
            found = next((one for one in versions if same is not None and one.version == same.version), None)
        if found is None:
            raise errors.schema_not_found()
        return found

    async def problems(
        self, subject: str, submitted: Submitted, older: Sequence[Version], level: CompatibilityLevel | None
    ) -> list[str]:
        """Incompatibilities with these versions, at the given level or the subject's."""
        schema_id = level or self.state.level(subject)
        if schema_id is CompatibilityLevel.NONE or not older:
            return []
        compared = older if schema_id.is_transitive else older[-1:]
        new = (submitted.schema, submitted.needed)
        return await self.work.problems(schema_id, new, [self._text(one) for one in reversed(compared)])

    async def check_new(self, subject: str, submitted: Submitted) -> None:
        """Reject invalid names that other registries accept, unless an older version of the subject has some."""
        fault = submitted.facts.fault
        if not fault:
            return
        for version in self.state.live(subject):
            if version.schema.type is submitted.schema.type and (await self._facts(version)).fault:
                return
        raise errors.unreadable_schema(submitted.schema.type, fault)

    async def rendered(self, version: Version, level: str) -> str:
        return await self.work.rendered(*self._text(version), level)

    def _text(self, version: Version) -> tuple[SchemaText, tuple[Dependency, ...]]:
        return version.schema, dependencies(self.state, version.schema, context_of(version.subject))

    async def _facts(self, version: Version) -> SchemaFacts:
        return await self.work.facts(*self._text(version))

    async def delete_subject(self, subject: str, *, permanent: bool) -> Any:
        async def decide(state: RegistryState) -> SubjectChange:
            return subjects.delete_subject(state, subject, permanent=permanent)

        return await self.store.change(decide)

    async def delete_version(self, subject: str, version: str, *, permanent: bool) -> Any:
        async def decide(state: RegistryState) -> SubjectChange:
            return subjects.delete_version(state, subject, version, permanent=permanent)

        return await self.store.change(decide)

    async def set_config(self, scope: str | None, body: Json) -> Any:
        async def decide(state: RegistryState) -> SubjectChange:
            return settings.set_config(state, scope, body)

        return await self.store.change(decide)

    async def delete_config(self, scope: str | None) -> Any:
        async def decide(state: RegistryState) -> SubjectChange:
            return settings.delete_config(state, scope)

        return await self.store.change(decide)

    async def set_mode(self, scope: str | None, level: Any, *, force: bool) -> Any:
        async def decide(state: RegistryState) -> SubjectChange:
            return settings.set_mode(state, scope, level, force=force)

        return await self.store.change(decide)

    async def delete_mode(self, scope: str | None) -> Any:
        async def decide(state: RegistryState) -> SubjectChange:
            return settings.delete_mode(state, scope)

        return await self.store.change(decide)

    async def _same(
        self, submitted: Submitted, schema: SchemaText, versions: list[Version]
    ) -> Version | None:
        """Version with this schema, also with an equivalent text; Avro texts are in canonical form already."""
        found = _with_text(submitted, schema, versions)
        if found is not None or schema.type is SchemaType.AVRO:
            return found
        level = submitted.facts.identity
        for version in reversed(versions):
            alike = replace(version.schema, text="") == replace(schema, text="")
            if alike and (await self._facts(version)).identity == level:
                return version
        return None

    def _compared(self, subject: str, schema: SchemaText, live: list[Version]) -> list[Version]:
        """Versions to compare with: with a compatibility group, only those of the same group."""
        group = self.state.setting(subject, "compatibilityGroup")
        if not group:
            return live
        return [one for one in live if _group_of(one.schema, group) == _group_of(schema, group)]


def _with_text(submitted: Submitted, schema: SchemaText, versions: list[Version]) -> Version | None:
    level = [replace(schema, text=text) for text in submitted.texts]
    return next((one for one in reversed(versions) if one.schema in level), None)


def _group_of(schema: SchemaText, name: str) -> Any:
    return properties(schema).get(name)


def _with_given_id(version: Version, specified_id: int | None) -> Version:
    if specified_id is not None and specified_id != version.id:
        raise errors.id_does_not_match(version.id, specified_id)
    return version
