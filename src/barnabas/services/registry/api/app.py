"""The registry's REST API as an ASGI application."""

from __future__ import annotations

import asyncio
import json
import urllib.parse
from dataclasses import dataclass
from enum import Enum
from typing import Any

from barnabas.client.schemas.client import DEFAULT_CONTEXT, name_of
from barnabas.common.safe_logging import safe_logger
from barnabas.security.authz import Operation
from barnabas.services.registry import errors
from barnabas.services.registry.access import Caller, Origins, RegistryAccess, allows_cluster, allows_subject
from barnabas.services.registry.api import endpoints, media
from barnabas.services.registry.api.forwarding import FORWARDED, Forwarder
from barnabas.services.registry.api.request import RawText, RegistryRequest, read_query
from barnabas.services.registry.errors import RegistryApiError
from barnabas.services.registry.formats.parser import SchemaSyntaxError, count_values, load_json
from barnabas.services.registry.model import check_context
from barnabas.services.registry.service import SchemaService
from barnabas.services.registry.store import NotLeadingError
from barnabas.web import (
    PEER_CERTIFICATE,
    BodyEndedError,
    BodyTooLargeError,
    CurrentUser,
    Match,
    MethodNotAllowedError,
    NotFoundError,
    Receive,
    ResponseWriter,
    Route,
    Router,
    Scope,
    Send,
    headers_of,
    read_body,
)

# -- Endpoints of the registry with the right that each one needs. docs/registry.md shows this table ---


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


logger = safe_logger(__name__)

MAX_BODY = 1024 * 1024
LARGE_BODY = 64 * 1024  # parsed in a thread: it would block the event loop for 10 ms or more
MANY = 100  # list elements, above which a thread encodes the response
_WITH_BODY = ("POST", "PUT")


class RegistryApp:
    def __init__(
        self, service: SchemaService, access: RegistryAccess, forwarder: Forwarder, origins: Origins
    ) -> None:
        self.service = service
        self.access = access
        self.forwarder = forwarder
        self.origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = headers_of(scope)
        kind = media.JSON
        try:
            kind = media.answered(headers.get("accept", ""))
            status, body = await self._answer(scope, headers, receive)
        except RegistryApiError as error:
            status, body = error.status, _error_body(error)
        except Exception:
            logger.exception("unexpected error while handling a request")
            status, body = 500, _error_body(errors.store_error("see the log of the registry"))
        await _send(send, status, body, kind)

    async def _answer(self, scope: Scope, headers: dict[str, str], receive: Receive) -> tuple[int, bytes]:
        method = scope["method"]
        self.origins.check(method, headers)
        raw_path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").partition("?")[0]
        match, context = find_route(method, raw_path)
        user = await self.access.user(_caller(scope, headers))  # before anything is read
        body = await _read(headers, receive) if method in _WITH_BODY else b""
        if method in _WITH_BODY:
            media.check_content_type(headers.get("content-type", ""))
        request = await self._request(match, context, user, scope, headers, body)
        try:
            answer = await match.route.endpoint(request)
        except NotLeadingError as elsewhere:
            if elsewhere.leader is None or FORWARDED in headers:
                raise errors.unknown_leader() from None
            await self.service.store.check_leader(elsewhere.leader)
            query = scope["query_string"].decode("latin-1")
            target = f"{raw_path}?{query}" if query else raw_path
            forwarded = await self.forwarder.forward(elsewhere.leader, method, target, headers, body)
            await self.service.store.catch_up()
            return forwarded
        if isinstance(answer, list) and len(answer) > MANY:
            return 200, await asyncio.to_thread(_encoded_list, answer)
        return 200, _encoded(answer)

    async def _request(
        self,
        match: Match[Route[Right]],
        context: str,
        user: CurrentUser,
        scope: Scope,
        headers: dict[str, str],
        body: bytes,
    ) -> RegistryRequest:
        repeated = read_query(scope["query_string"].decode("latin-1"))
        query = {name: values[-1] for name, values in repeated.items()}
        new_fields = scope["method"] not in _WITH_BODY or media.takes_new_fields(headers)
        request = RegistryRequest(
            self.service, user, match.parameters, query, repeated, None, context, new_fields
        )
        await check_right(match.route.right, request)
        if scope["method"] in _WITH_BODY:
            request.is_large = len(body) > LARGE_BODY
            request.body = await asyncio.to_thread(_decoded, body) if request.is_large else _decoded(body)
        return request


def _caller(scope: Scope, headers: dict[str, str]) -> Caller:
    host = (scope.get("client") or ("",))[0]
    certificate = scope.get("state", {}).get(PEER_CERTIFICATE)
    return Caller(headers.get("authorization", ""), certificate, host, FORWARDED in headers)


async def _read(headers: dict[str, str], receive: Receive) -> bytes:
    try:
        return await read_body(headers, receive, MAX_BODY)
    except BodyTooLargeError:
        raise errors.http_error(413) from None
    except BodyEndedError:
        raise errors.bad_request("the request body is incomplete") from None


def _decoded(body: bytes) -> Any:
    try:
        value = load_json(body)
        count_values(value)
    except RecursionError:
        raise errors.bad_request("the body is nested too deeply") from None
    except SchemaSyntaxError as error:
        raise errors.bad_request(f"the body cannot be read: {error}") from None
    except ValueError as error:
        raise errors.bad_request(f"the body is not valid JSON: {error}") from None
    return value


def _encoded(answer: Any) -> bytes:
    if isinstance(answer, RawText):
        return answer.text.encode("utf-8", "surrogatepass")
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _encoded_list(answer: list[Any]) -> bytes:
    """Encode elements one by one, so that other threads, such as the event loop's, can run in between."""
    return b"[" + b",".join(map(_encoded, answer)) + b"]"


def _error_body(error: RegistryApiError) -> bytes:
    return _encoded({"error_code": error.code, "message": error.message})


async def _send(send: Send, status: int, body: bytes, kind: str) -> None:
    challenge = [("www-authenticate", 'Basic realm="schema registry", Bearer')] if status == 401 else []
    await ResponseWriter(send).send(status, kind, body, challenge)
