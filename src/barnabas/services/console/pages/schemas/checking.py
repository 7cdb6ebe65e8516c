"""Check of a schema against a subject, and its registration."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from barnabas.client.schemas import SchemaClient, SchemaReference
from barnabas.client.schemas.client import quoted, topic_of
from barnabas.security.authz import Operation, ResourceType
from barnabas.services.console.administration.rights import may_change_topic
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import BadInputError, ConsoleError
from barnabas.services.console.needs import CHECKED, subject
from barnabas.services.console.pages.schemas import registry
from barnabas.services.console.pages.schemas.text import DiffLine, compare, pretty
from barnabas.services.console.rendering import quote
from barnabas.services.console.routes import ActionResult, Routes

routes = Routes()

SchemaKind = Literal["AVRO", "JSON", "PROTOBUF"]
MAX_IN_ADDRESS = 30_000
"""Characters of a schema in the URL of a check; a larger one is checked when it is registered."""


class CheckQuery(msgspec.Struct):
    subject: str = ""
    type: SchemaKind = "AVRO"
    schema: str = ""
    """Empty: nothing is checked; a known subject fills in its newest schema."""
    references: str = ""
    """One `name subject version` a line."""


class SchemaCheck(msgspec.Struct):
    is_compatible: bool
    reasons: list[str]
    level: str
    """Compatibility level in force; empty if the user may not see it."""
    is_new: bool
    """True if the subject has no version yet."""
    version: int | None
    """Newest version."""
    lines: list[DiffLine]
    """Difference from the newest version."""


class CheckPage(msgspec.Struct):
    subject: str
    type: SchemaKind
    schema: str
    references: str
    result: SchemaCheck | None
    error: str
    """Why the schema cannot be checked: it is not valid, or the registry refuses."""
    may_register: bool


class RegisterForm(msgspec.Struct):
    subject: str
    schema: str
    type: SchemaKind = "AVRO"
    references: str = ""


@routes.page("/check-schema", needs=CHECKED, template="schemas/check.html")
async def check_schema(context: RequestScope, query: CheckQuery) -> CheckPage:
    """Check a schema as the next version of a subject; reasons if it is not compatible. Needs READ on the topic."""
    page = CheckPage(query.subject, query.type, query.schema, query.references, None, "", False)
    if not query.subject:
        return page
    topic = topic_of(query.subject)
    await context.demand(Operation.READ, ResourceType.TOPIC, topic)
    page.may_register = await may_change_topic(context, Operation.WRITE, topic)
    try:
        await registry.ask(context, lambda client: _check(client, page))
    except BadInputError as error:
        page.error = error.message
    return page


def _check(client: SchemaClient, page: CheckPage) -> None:
    versions = registry.optional(client, f"/subjects/{quoted(page.subject)}/versions") or []
    newest = client.latest(page.subject) if versions else None
    if not page.schema:
        if newest is not None:
            page.type = _kind(newest.schema.type)
            page.schema = pretty(newest.schema.type, newest.schema.text)
            page.references = "\n".join(f"{r.name} {r.subject} {r.version}" for r in newest.schema.references)
        return
    document = _document(page.type, page.schema, page.references)
    reasons = registry.check(client, page.subject, "" if versions else "latest", document)
    before = pretty(newest.schema.type, newest.schema.text) if newest else ""
    after = pretty(page.type, page.schema)
    page.result = SchemaCheck(
        is_compatible=not reasons,
        reasons=reasons,
        level=registry.level_of(client, page.subject),
        is_new=newest is None,
        version=newest.version if newest else None,
        lines=compare(before, after) if newest else [],
    )


@routes.action("/schemas/{subject}/register", needs=subject(Operation.WRITE))
async def register_schema(context: RequestScope, form: RegisterForm) -> ActionResult:
    """Register a schema as the next version of a subject. One that is not compatible is refused; one that the subject
    has keeps its version."""
    document = _document(form.type, form.schema, form.references)
    path = f"/subjects/{quoted(form.subject)}/versions"

    def work(client: SchemaClient) -> int:
        client.request("POST", path, document)
        return int(client.request("POST", path.removesuffix("/versions"), document)["version"])

    try:
        version = await registry.ask(context, work)
    except ConsoleError as error:
        raise type(error)(f"Nothing was registered. {error.message}", "schema") from None
    context.cluster.registry.changed()
    return ActionResult(
        f"The schema is version {version} of {form.subject}.",
        f"/schemas/{quote(form.subject)}?version={version}",
    )


def _document(kind: str, text: str, references: str) -> dict[str, Any]:
    if not text.strip():
        raise BadInputError("is missing", "schema")
    found = [_reference(line) for line in references.splitlines() if line.strip()]
    return {
        "schema": text,
        "schemaType": kind,
        "references": [
            {"name": each.name, "subject": each.subject, "version": each.version} for each in found
        ],
    }


def _reference(line: str) -> SchemaReference:
    parts = line.split()
    if len(parts) != 3 or not (parts[2].isascii() and parts[2].isdecimal() and len(parts[2]) < 11):
        raise BadInputError(
            f"{line[:100]!r} is not a reference: write name, subject and version", "references"
        )
    return SchemaReference(parts[0], parts[1], int(parts[2]))


def _kind(name: str) -> SchemaKind:
    found: SchemaKind = msgspec.convert(name, SchemaKind)
    return found
