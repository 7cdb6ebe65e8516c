"""Subjects of the schema registry: list, versions, differences, and what uses them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from barnabas.client.schemas import SchemaClient, SubjectVersion
from barnabas.client.schemas.client import context_of, name_of, quoted, topic_of
from barnabas.security.authz import Operation, ResourceType
from barnabas.services.console.administration.rights import may_change_topic
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import ConsoleError, ResourceNotFoundError
from barnabas.services.console.needs import SHOWN, subject
from barnabas.services.console.pages.list_parts import Paging, page_of
from barnabas.services.console.pages.schemas import registry
from barnabas.services.console.pages.schemas.registry import SubjectSchema
from barnabas.services.console.pages.schemas.text import (
    DiffLine,
    FieldChanges,
    compare,
    field_changes,
    fields_of,
    pretty,
)
from barnabas.services.console.rendering import quote
from barnabas.services.console.routes import ActionResult, NavigationEntry, Routes

routes = Routes()

Tab = Literal["schema", "changes", "versions", "uses", "settings"]
Level = Literal[
    "NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"
]


class SubjectsQuery(msgspec.Struct):
    q: str = ""
    """Part of the subject's name, or of a field of its newest schema."""
    context: str = ""
    """Only subjects of this context; `.` is the default one."""
    page: int = 1


class SubjectQuery(msgspec.Struct):
    subject: str
    q: str = ""
    context: str = ""
    page: int = 1
    tab: Tab = "schema"
    version: int | None = None
    """The newest one by default."""
    since: int | None = None
    """Version to compare with; by default the one before."""
    sides: bool = False
    """Show a difference side by side."""


class SubjectRow(msgspec.Struct):
    subject: str
    name: str
    context: str
    """Empty for the default context."""
    type: str
    version: int


class VersionRow(msgspec.Struct):
    version: int
    id: int
    type: str
    references: list[str]
    """`subject vN`."""


class SchemaChanges(msgspec.Struct):
    since: int
    lines: list[DiffLine]
    fields: FieldChanges
    reasons: list[str] | None
    """Why the version is not compatible with the other one; None if that was not checked."""


class SchemaUse(msgspec.Struct):
    topic: str
    exists: bool
    groups: list[str]
    """Groups that read the topic, of those that the user may describe."""


class SubjectDetail(msgspec.Struct):
    subject: str
    name: str
    type: str
    id: int
    version: int
    versions: list[int]
    text: str
    """One field a line."""
    references: list[str]
    level: str
    """Compatibility level in force; empty if the user may not see it."""
    mode: str
    changes: SchemaChanges | None = None
    rows: list[VersionRow] = []
    uses: list[SchemaUse] = []
    referenced_by: list[str] = []
    """Subjects and versions that refer to this version."""
    may_register: bool = False
    may_configure: bool = False


class SchemasPage(msgspec.Struct):
    subjects: list[SubjectRow]
    paging: Paging
    q: str
    context: str
    contexts: list[str]
    total: int
    level: str
    """Global compatibility level; empty if the user may not see it."""
    mode: str
    url: str
    """Of the registry; empty if none is known."""
    is_chosen: bool
    chosen: SubjectDetail | None
    error: str


@routes.page(
    "/schemas",
    needs=SHOWN,
    template="schemas/subjects.html",
    entry=NavigationEntry("Schemas", "e", 25, "schemas", "Data"),
)
async def list_schemas(context: RequestScope, query: SubjectsQuery) -> SchemasPage:
    """Subjects of the schema registry that the user may read, and the first of them."""
    page = await _list(context, query)
    if page.subjects:
        await _choose(context, page, SubjectQuery(page.subjects[0].subject))
    return page


@routes.page("/schemas/{subject}", needs=subject(Operation.READ), template="schemas/subjects.html")
async def show_schema(context: RequestScope, query: SubjectQuery) -> SchemasPage:
    """One subject: schema, changes between two versions, versions, topics and groups that use it, settings."""
    page = await _list(context, SubjectsQuery(query.q, query.context, query.page))
    page.is_chosen = True
    await _choose(context, page, query)
    return page


async def _list(context: RequestScope, query: SubjectsQuery) -> SchemasPage:
    account = context.cluster.registry.of(context.client)
    page = SchemasPage(
        [], Paging(1, 1, 0), query.q, query.context, [], 0, "", "", account.url, False, None, ""
    )
    if not account.is_located:
        return page
    try:
        every = await registry.list_subjects(context)
        page.level, page.mode = await registry.ask(context, _global)
    except ConsoleError as error:
        page.error = error.message
        return page
    page.contexts = sorted({context_of(each.subject) for each in every})
    page.total = len(every)
    shown, page.paging = page_of([each for each in every if _fits(each, query)], query.page)
    page.subjects = [_row(each) for each in shown]
    return page


def _global(client: SchemaClient) -> tuple[str, str]:
    level, mode = registry.optional(client, "/config") or {}, registry.optional(client, "/mode") or {}
    return str(level.get("compatibilityLevel") or ""), str(mode.get("mode") or "")


def _fits(each: SubjectSchema, query: SubjectsQuery) -> bool:
    part = query.q.strip().lower()
    if query.context and context_of(each.subject) != query.context:
        return False
    if part in each.subject.lower():
        return True
    return part in each.schema.lower() and any(
        part in field.lower() for field in fields_of(each.schema_type, each.schema)
    )


def _row(each: SubjectSchema) -> SubjectRow:
    where = context_of(each.subject)
    shown = "" if where == "." else where
    return SubjectRow(each.subject, name_of(each.subject), shown, each.schema_type, each.version)


async def _choose(context: RequestScope, page: SchemasPage, query: SubjectQuery) -> None:
    """Add the subject of the query; an error of the registry is shown in its place."""
    if not page.url:
        raise ResourceNotFoundError(registry.NO_REGISTRY)
    if page.error:
        return
    try:
        found, same = await registry.ask(context, lambda client: _detail(client, query))
    except ConsoleError as error:
        if error.status == 404:
            raise
        page.error = error.message
        return
    topic = topic_of(query.subject)
    found.uses = await _uses(context, [topic, *(topic_of(each) for each in same)])
    owners = {each: topic_of(each.partition(" ")[0]) for each in found.referenced_by}
    readable = await context.allowed(Operation.READ, ResourceType.TOPIC, owners.values())
    found.referenced_by = [each for each, owner in owners.items() if owner in readable]
    found.may_register = await may_change_topic(context, Operation.WRITE, topic)
    found.may_configure = await may_change_topic(context, Operation.ALTER_CONFIGS, topic)
    page.chosen = found


def _detail(client: SchemaClient, query: SubjectQuery) -> tuple[SubjectDetail, list[str]]:
    """A subject, and all subjects with the same schema."""
    path = f"/subjects/{quoted(query.subject)}/versions"
    versions = [int(each) for each in client.request("GET", path)]
    chosen = client.version(query.subject, query.version or "latest")
    found = SubjectDetail(
        query.subject,
        name_of(query.subject),
        chosen.schema.type,
        chosen.id,
        chosen.version,
        versions,
        pretty(chosen.schema.type, chosen.schema.text),
        [f"{each.subject} v{each.version}" for each in chosen.schema.references],
        registry.level_of(client, query.subject),
        registry.mode_of(client, query.subject),
    )
    earlier = [each for each in versions if each < chosen.version]
    since = query.since or (max(earlier) if earlier else None)
    if since is not None and since != chosen.version:
        found.changes = _changes(client, client.version(query.subject, since), chosen, found.level)
    if query.tab == "versions":
        found.rows = [_version(client.version(query.subject, each)) for each in reversed(versions[-200:])]
    if query.tab == "uses":
        ids = registry.optional(client, f"{path}/{chosen.version}/referencedby") or []
        found.referenced_by = [
            each for number in ids[:50] for each in _subjects_of(client, query.subject, number)
        ]
    same = registry.optional(client, f"/schemas/ids/{chosen.id}/subjects?{_within(query.subject)}") or []
    return found, [str(each) for each in same]


def _within(name: str) -> str:
    """Ids belong to the context of a subject."""
    return f"subject={quoted(name)}"


def _subjects_of(client: SchemaClient, name: str, number: int) -> list[str]:
    found = registry.optional(client, f"/schemas/ids/{number}/versions?{_within(name)}") or []
    return [f"{each['subject']} v{each['version']}" for each in found]


def _version(found: SubjectVersion) -> VersionRow:
    references = [f"{each.subject} v{each.version}" for each in found.schema.references]
    return VersionRow(found.version, found.id, found.schema.type, references)


def _changes(client: SchemaClient, old: SubjectVersion, new: SubjectVersion, level: str) -> SchemaChanges:
    before, after = pretty(old.schema.type, old.schema.text), pretty(new.schema.type, new.schema.text)
    fields = field_changes(new.schema.type, old.schema.text, new.schema.text)
    reasons = None
    if level not in ("", "NONE"):
        reasons = registry.check(client, new.subject, old.version, document_of(new))
    return SchemaChanges(old.version, compare(before, after), fields, reasons)


def document_of(found: SubjectVersion) -> dict[str, Any]:
    references = [
        {"name": each.name, "subject": each.subject, "version": each.version}
        for each in found.schema.references
    ]
    return {"schema": found.schema.text, "schemaType": found.schema.type, "references": references}


async def _uses(context: RequestScope, topics: list[str]) -> list[SchemaUse]:
    snapshot = context.cluster.sampler.snapshot
    found = []
    seen = await context.allowed(Operation.DESCRIBE, ResourceType.TOPIC, topics)
    for topic in (each for each in dict.fromkeys(topics) if each in seen):
        readers = [
            name
            for name, group in snapshot.groups.items()
            if any(each.topic == topic for each in group.topics)
        ]
        allowed = await context.allowed(Operation.DESCRIBE, ResourceType.GROUP, readers)
        found.append(SchemaUse(topic, topic in snapshot.topics, sorted(allowed)))
    return found


class LevelForm(msgspec.Struct):
    subject: str
    level: Level


@routes.action("/schemas/{subject}/level", needs=subject(Operation.ALTER_CONFIGS))
async def set_level(context: RequestScope, form: LevelForm) -> ActionResult:
    """Set the compatibility level of a subject."""
    path = f"/config/{quoted(form.subject)}"
    await registry.ask(context, lambda client: client.request("PUT", path, {"compatibility": form.level}))
    return ActionResult(
        f"{form.subject} is checked by {form.level} from now on.",
        f"/schemas/{quote(form.subject)}?tab=settings",
    )
