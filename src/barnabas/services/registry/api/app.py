"""The registry's REST API as an ASGI application."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from barnabas.common.safe_logging import safe_logger
from barnabas.services.registry import errors
from barnabas.services.registry.access import Caller, Origins, RegistryAccess
from barnabas.services.registry.api import media
from barnabas.services.registry.api.forwarding import FORWARDED, Forwarder
from barnabas.services.registry.api.request import RawText, RegistryRequest, read_query
from barnabas.services.registry.api.routes import Right, check_right, find_route
from barnabas.services.registry.errors import RegistryApiError
from barnabas.services.registry.formats.parser import SchemaSyntaxError, count_values, load_json
from barnabas.services.registry.service import SchemaService
from barnabas.services.registry.store import NotLeadingError
from barnabas.web import (
    PEER_CERTIFICATE,
    BodyEndedError,
    BodyTooLargeError,
    CurrentUser,
    Match,
    Receive,
    ResponseWriter,
    Route,
    Scope,
    Send,
    headers_of,
    read_body,
)

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
            logger.exception("a request could not be answered")
            status, body = 500, _error_body(errors.store_error("the registry's log says more"))
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
        raise errors.bad_request("the request ended before its body") from None


def _decoded(body: bytes) -> Any:
    try:
        value = load_json(body)
        count_values(value)
    except RecursionError:
        raise errors.bad_request("the body is nested too deeply") from None
    except SchemaSyntaxError as error:
        raise errors.bad_request(f"the body cannot be read: {error}") from None
    except ValueError as error:
        raise errors.bad_request(f"the body is no JSON: {error}") from None
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
