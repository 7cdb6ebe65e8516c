"""Every endpoint: its path, who answers, and the right that it needs. The documentation shows this table."""

from __future__ import annotations

import urllib.parse
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from barnabas.client.schemas.subjects import DEFAULT_CONTEXT, name_of
from barnabas.security.authz.authorizer import Operation
from barnabas.services.registry import errors
from barnabas.services.registry.api import endpoints
from barnabas.services.registry.api.request import Request
from barnabas.services.registry.model import check_context

Endpoint = Callable[[Request], Awaitable[Any]]


class On(Enum):
    """What the right is for."""

    NOTHING = "nothing: any user"
    TOPIC = "the subject's topic"
    SHOWN = "the topics of the subjects that are shown"  # the endpoint leaves out what may not be read
    SCOPE = "the subject's topic; the cluster for a context and for all"
    CLUSTER = "the cluster"


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    endpoint: Endpoint
    on: On
    operation: Operation = Operation.READ
    writes: bool = False  # carried out by the registry that leads

    @property
    def segments(self) -> list[str]:
        return self.path.strip("/").split("/")


ROUTES = [
    Route("GET", "/", endpoints.root, On.NOTHING),
    Route("GET", "/master_available", endpoints.leader_available, On.NOTHING),
    Route("GET", "/subjects", endpoints.list_subjects, On.SHOWN),
    Route("GET", "/subjects/{subject}/versions", endpoints.list_versions, On.TOPIC),
    Route("GET", "/subjects/{subject}/metadata", endpoints.get_by_metadata, On.TOPIC),
    Route("GET", "/subjects/{subject}/versions/{version}", endpoints.get_version, On.TOPIC),
    Route("GET", "/subjects/{subject}/versions/{version}/schema", endpoints.get_version_text, On.TOPIC),
    Route(
        "GET", "/subjects/{subject}/versions/{version}/referencedby", endpoints.get_referenced_by, On.TOPIC
    ),
    Route("POST", "/subjects/{subject}", endpoints.lookup, On.TOPIC),
    Route("POST", "/subjects/{subject}/versions", endpoints.register, On.TOPIC, Operation.WRITE, True),
    Route("DELETE", "/subjects/{subject}", endpoints.delete_subject, On.TOPIC, Operation.DELETE, True),
    Route(
        "DELETE",
        "/subjects/{subject}/versions/{version}",
        endpoints.delete_version,
        On.TOPIC,
        Operation.DELETE,
        True,
    ),
    Route("GET", "/schemas", endpoints.list_schemas, On.SHOWN),
    Route("GET", "/schemas/types", endpoints.get_types, On.NOTHING),
    Route("GET", "/schemas/ids/{id}", endpoints.get_by_id, On.SHOWN),
    Route("GET", "/schemas/ids/{id}/schema", endpoints.get_text_by_id, On.SHOWN),
    Route("GET", "/schemas/ids/{id}/subjects", endpoints.get_subjects_of_id, On.SHOWN),
    Route("GET", "/schemas/ids/{id}/versions", endpoints.get_versions_of_id, On.SHOWN),
    Route("GET", "/schemas/guids/{guid}", endpoints.get_by_guid, On.SHOWN),
    Route("GET", "/schemas/guids/{guid}/ids", endpoints.get_ids_of_guid, On.SHOWN),
    Route("POST", "/compatibility/subjects/{subject}/versions", endpoints.check_all, On.TOPIC),
    Route("POST", "/compatibility/subjects/{subject}/versions/{version}", endpoints.check_version, On.TOPIC),
    Route("GET", "/config", endpoints.get_config, On.CLUSTER, Operation.DESCRIBE_CONFIGS),
    Route("PUT", "/config", endpoints.set_config, On.CLUSTER, Operation.ALTER_CONFIGS, True),
    Route("DELETE", "/config", endpoints.delete_config, On.CLUSTER, Operation.ALTER_CONFIGS, True),
    Route("GET", "/config/{subject}", endpoints.get_config, On.SCOPE, Operation.DESCRIBE_CONFIGS),
    Route("PUT", "/config/{subject}", endpoints.set_config, On.SCOPE, Operation.ALTER_CONFIGS, True),
    Route("DELETE", "/config/{subject}", endpoints.delete_config, On.SCOPE, Operation.ALTER_CONFIGS, True),
    Route("GET", "/mode", endpoints.get_mode, On.CLUSTER, Operation.DESCRIBE_CONFIGS),
    Route("PUT", "/mode", endpoints.set_mode, On.CLUSTER, Operation.ALTER_CONFIGS, True),
    Route("DELETE", "/mode", endpoints.delete_mode, On.CLUSTER, Operation.ALTER_CONFIGS, True),
    Route("GET", "/mode/{subject}", endpoints.get_mode, On.SCOPE, Operation.DESCRIBE_CONFIGS),
    Route("PUT", "/mode/{subject}", endpoints.set_mode, On.SCOPE, Operation.ALTER_CONFIGS, True),
    Route("DELETE", "/mode/{subject}", endpoints.delete_mode, On.SCOPE, Operation.ALTER_CONFIGS, True),
    Route("GET", "/contexts", endpoints.list_contexts, On.SHOWN),
]


@dataclass(frozen=True, slots=True)
class Match:
    route: Route
    path: dict[str, str]
    context: str


def find_route(method: str, raw_path: str) -> Match:
    """Segments are split before they are unquoted: `%2F` is part of a subject's name."""
    segments = raw_path.strip("/").split("/")
    context = DEFAULT_CONTEXT
    if segments[0] == "contexts" and len(segments) > 2:
        context = _context(urllib.parse.unquote(segments[1]))
        segments = segments[2:]
    fitting = [(route, found) for route in ROUTES if (found := _fit(route.segments, segments)) is not None]
    for route, found in fitting:
        if route.method == method:
            return Match(route, found, context)
    raise errors.http_error(405 if fitting else 404)


async def check_right(route: Route, request: Request) -> None:
    """403 without the right; endpoints that show many subjects leave out those that may not be read.

    Decided by what the request means, not by its path: `/config/__GLOBAL__` is everybody's configuration.
    """
    if route.on in (On.NOTHING, On.SHOWN):
        return
    meant = request.subject if route.on is On.TOPIC else request.scope
    if meant is None or not name_of(meant):
        if not await request.visitor.may_with_cluster(route.operation):
            raise errors.forbidden(route.operation.name, "the cluster")
    elif not await request.visitor.may(route.operation, meant):
        raise errors.forbidden(route.operation.name, f"subject {meant}")


def _context(text: str) -> str:
    name = check_context(text.strip(":"))
    return name if name.startswith(".") else f".{name}"


def _fit(pattern: list[str], segments: list[str]) -> dict[str, str] | None:
    if len(pattern) != len(segments):
        return None
    found = {}
    for wanted, segment in zip(pattern, segments, strict=True):
        if wanted.startswith("{"):
            found[wanted[1:-1]] = urllib.parse.unquote(segment)
        elif wanted != segment:
            return None
    return found
