"""Endpoints of the registry with the right that each one needs. docs/registry.md shows this table."""

from __future__ import annotations

import urllib.parse
from dataclasses import dataclass
from enum import Enum

from barnabas.client.schemas.subjects import DEFAULT_CONTEXT, name_of
from barnabas.security.authz import Operation
from barnabas.services.registry import errors
from barnabas.services.registry.access import allows_cluster, allows_subject
from barnabas.services.registry.api import endpoints
from barnabas.services.registry.api.request import RegistryRequest
from barnabas.services.registry.model import check_context
from barnabas.web import Match, MethodNotAllowedError, NotFoundError, Route, Router


class RightOn(Enum):
    """Resource on which the user needs the operation of a right."""

    NOTHING = "nothing: any user"
    TOPIC = "the subject's topic"
    LISTED = "the topics of the listed subjects"  # the endpoint omits subjects that the user may not read
    SCOPE = "the subject's topic; the cluster for a context and for the global configuration"
    CLUSTER = "the cluster"


@dataclass(frozen=True, slots=True)
class Right:
    on: RightOn
    operation: Operation = Operation.READ


ANY_USER = Right(RightOn.NOTHING)
READ_LISTED = Right(RightOn.LISTED)
READ_TOPIC = Right(RightOn.TOPIC, Operation.READ)
WRITE_TOPIC = Right(RightOn.TOPIC, Operation.WRITE)
DELETE_TOPIC = Right(RightOn.TOPIC, Operation.DELETE)
DESCRIBE_SCOPE = Right(RightOn.SCOPE, Operation.DESCRIBE_CONFIGS)
ALTER_SCOPE = Right(RightOn.SCOPE, Operation.ALTER_CONFIGS)
DESCRIBE_CLUSTER = Right(RightOn.CLUSTER, Operation.DESCRIBE_CONFIGS)
ALTER_CLUSTER = Right(RightOn.CLUSTER, Operation.ALTER_CONFIGS)

ROUTES = [
    Route("GET", "/", endpoints.root, ANY_USER),
    Route("GET", "/master_available", endpoints.leader_available, ANY_USER),
    Route("GET", "/subjects", endpoints.list_subjects, READ_LISTED),
    Route("GET", "/subjects/{subject}/versions", endpoints.list_versions, READ_TOPIC),
    Route("GET", "/subjects/{subject}/metadata", endpoints.get_by_metadata, READ_TOPIC),
    Route("GET", "/subjects/{subject}/versions/{version}", endpoints.get_version, READ_TOPIC),
    Route("GET", "/subjects/{subject}/versions/{version}/schema", endpoints.get_version_text, READ_TOPIC),
    Route(
        "GET", "/subjects/{subject}/versions/{version}/referencedby", endpoints.get_referenced_by, READ_TOPIC
    ),
    Route("POST", "/subjects/{subject}", endpoints.lookup, READ_TOPIC),
    Route("POST", "/subjects/{subject}/versions", endpoints.register, WRITE_TOPIC),
    Route("DELETE", "/subjects/{subject}", endpoints.delete_subject, DELETE_TOPIC),
    Route("DELETE", "/subjects/{subject}/versions/{version}", endpoints.delete_version, DELETE_TOPIC),
    Route("GET", "/schemas", endpoints.list_schemas, READ_LISTED),
    Route("GET", "/schemas/types", endpoints.get_types, ANY_USER),
    Route("GET", "/schemas/ids/{id}", endpoints.get_by_id, READ_LISTED),
    Route("GET", "/schemas/ids/{id}/schema", endpoints.get_text_by_id, READ_LISTED),
    Route("GET", "/schemas/ids/{id}/subjects", endpoints.get_subjects_of_id, READ_LISTED),
    Route("GET", "/schemas/ids/{id}/versions", endpoints.get_versions_of_id, READ_LISTED),
    Route("GET", "/schemas/guids/{guid}", endpoints.get_by_guid, READ_LISTED),
    Route("GET", "/schemas/guids/{guid}/ids", endpoints.get_ids_of_guid, READ_LISTED),
    Route("POST", "/compatibility/subjects/{subject}/versions", endpoints.check_all, READ_TOPIC),
    Route(
        "POST", "/compatibility/subjects/{subject}/versions/{version}", endpoints.check_version, READ_TOPIC
    ),
    Route("GET", "/config", endpoints.get_config, DESCRIBE_CLUSTER),
    Route("PUT", "/config", endpoints.set_config, ALTER_CLUSTER),
    Route("DELETE", "/config", endpoints.delete_config, ALTER_CLUSTER),
    Route("GET", "/config/{subject}", endpoints.get_config, DESCRIBE_SCOPE),
    Route("PUT", "/config/{subject}", endpoints.set_config, ALTER_SCOPE),
    Route("DELETE", "/config/{subject}", endpoints.delete_config, ALTER_SCOPE),
    Route("GET", "/mode", endpoints.get_mode, DESCRIBE_CLUSTER),
    Route("PUT", "/mode", endpoints.set_mode, ALTER_CLUSTER),
    Route("DELETE", "/mode", endpoints.delete_mode, ALTER_CLUSTER),
    Route("GET", "/mode/{subject}", endpoints.get_mode, DESCRIBE_SCOPE),
    Route("PUT", "/mode/{subject}", endpoints.set_mode, ALTER_SCOPE),
    Route("DELETE", "/mode/{subject}", endpoints.delete_mode, ALTER_SCOPE),
    Route("GET", "/contexts", endpoints.list_contexts, READ_LISTED),
]


_ROUTER = Router(ROUTES)


def find_route(method: str, raw_path: str) -> tuple[Match[Route[Right]], str]:
    """Route and context of a request: each path is also served below `/contexts/NAME`."""
    segments, context = raw_path.strip("/").split("/"), DEFAULT_CONTEXT
    if segments[0] == "contexts" and len(segments) > 2:
        context = _context(urllib.parse.unquote(segments[1]))
        segments = segments[2:]
    try:
        return _ROUTER.match(method, f"/{'/'.join(segments)}"), context
    except NotFoundError:
        raise errors.http_error(404) from None
    except MethodNotAllowedError:
        raise errors.http_error(405) from None


async def check_right(right: Right, request: RegistryRequest) -> None:
    """403 without the right. Endpoints that list subjects omit those that the user may not read.

    The decision depends on what the request changes, not on its path: `/config/__GLOBAL__` is the global configuration.
    """
    if right.on in (RightOn.NOTHING, RightOn.LISTED):
        return
    scope = request.subject if right.on is RightOn.TOPIC else request.scope
    if scope is None or not name_of(scope):
        if not await allows_cluster(request.user, right.operation):
            raise errors.forbidden(right.operation.name, "the cluster")
    elif not await allows_subject(request.user, right.operation, scope):
        raise errors.forbidden(right.operation.name, f"subject {scope}")


def _context(text: str) -> str:
    name = check_context(text.strip(":"))
    return name if name.startswith(".") else f".{name}"
