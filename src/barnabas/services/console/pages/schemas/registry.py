"""Requests of pages to the schema registry, with the login of the user."""

from __future__ import annotations

import asyncio
import urllib.parse
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from barnabas.client.schemas import RegistryError, SchemaClient
from barnabas.client.schemas.client import context_of, name_of, quoted, topic_of
from barnabas.security.authz import Operation, ResourceType
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import BadInputError, ClusterError, RefusedError, ResourceNotFoundError

T = TypeVar("T")

TIMEOUT = 10.0
BATCH = 500
MAX_SUBJECTS = 5000
"""Subjects that a list reads, with the newest schema of each."""
NO_REGISTRY = (
    "No schema registry is known: set `schema_registry` of the cluster, or start the broker with --registry"
)


class SubjectSchema(msgspec.Struct):
    """Newest version of a subject."""

    subject: str
    version: int
    id: int
    schema: str
    schema_type: str = msgspec.field(default="AVRO", name="schemaType")


async def ask(context: RequestScope, question: Callable[[SchemaClient], T]) -> T:
    """Ask in a thread, as the user; errors of the registry become errors of the page."""
    account = context.cluster.registry.of(context.client)
    if not account.is_located:
        raise ResourceNotFoundError(NO_REGISTRY)

    def work() -> T:
        with account.client(TIMEOUT) as client:
            return question(client)

    try:
        return await asyncio.to_thread(work)
    except RegistryError as error:
        raise _explained(error) from None


def _explained(error: RegistryError) -> Exception:
    text = str(error).partition(" rejected the request: ")[2] or str(error)
    if error.status in (401, 403):
        return RefusedError(f"The schema registry refused: {text}")
    if error.status == 404:
        return ResourceNotFoundError(f"The schema registry: {text}")
    if error.status in (400, 409, 422):
        return BadInputError(text, "schema")
    return ClusterError(502, str(error))


async def list_subjects(context: RequestScope) -> list[SubjectSchema]:
    """Subjects of all contexts that the user may read, by context and name. The registry may know only the console's
    account: the user's rights on the topics are checked here, too."""
    found = await ask(context, _newest)
    topics = {topic_of(each.subject) for each in found}
    allowed = await context.allowed(Operation.READ, ResourceType.TOPIC, topics)
    readable = [each for each in found if topic_of(each.subject) in allowed]
    return sorted(readable, key=lambda each: (context_of(each.subject), name_of(each.subject)))


def _newest(client: SchemaClient) -> list[SubjectSchema]:
    found: list[SubjectSchema] = []
    while len(found) < MAX_SUBJECTS:
        query = {"latestOnly": "true", "subjectPrefix": ":*:", "offset": len(found), "limit": BATCH}
        batch = client.request("GET", f"/schemas?{urllib.parse.urlencode(query)}")
        found += msgspec.convert(batch, list[SubjectSchema])
        if len(batch) != BATCH:  # the last one, or a registry that knows no limit
            break
    return found


def optional(client: SchemaClient, path: str) -> Any:
    """Answer to GET; None if the registry refuses, or does not know the path."""
    try:
        return client.request("GET", path)
    except RegistryError as error:
        if error.status in (401, 403, 404, 405):
            return None
        raise


def level_of(client: SchemaClient, subject: str) -> str:
    """Compatibility level in force for a subject; empty if the user may not see it."""
    answer = optional(client, f"/config/{quoted(subject)}?defaultToGlobal=true") or optional(
        client, "/config"
    )
    return str((answer or {}).get("compatibilityLevel") or "")


def mode_of(client: SchemaClient, subject: str) -> str:
    answer = optional(client, f"/mode/{quoted(subject)}?defaultToGlobal=true")
    return str((answer or {}).get("mode") or "")


def check(client: SchemaClient, subject: str, version: int | str, document: dict[str, Any]) -> list[str]:
    """Reasons why a schema is not compatible with a version, or with all that its level asks for; empty if it is."""
    path = f"/compatibility/subjects/{quoted(subject)}/versions"
    path = f"{path}/{version}" if version else path
    answer = client.request("POST", f"{path}?verbose=true", document)
    if answer.get("is_compatible"):
        return []
    return [str(each) for each in answer.get("messages") or []] or ["The registry gives no reason."]
