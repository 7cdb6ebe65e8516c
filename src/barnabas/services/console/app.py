"""The console as an ASGI application: one request in, one page, JSON answer, stream or download out."""

from __future__ import annotations

import asyncio
import urllib.parse
from dataclasses import dataclass
from typing import Any

import msgspec

from barnabas.client.errors import ClientError
from barnabas.services.console import answers
from barnabas.services.console.answers import ResponseWriter
from barnabas.services.console.context import Auditing
from barnabas.services.console.clusters import Cluster
from barnabas.services.console.context import Context, refusal
from barnabas.services.console.errors import (
    BadInputError,
    ConsoleError,
    ElsewhereError,
    NotFoundError,
    RefusedError,
    TooLargeError,
    UnauthorizedError,
    explain,
)
from barnabas.services.console.visitor import Authenticator, Head
from barnabas.services.console.rendering import Renderer
from barnabas.services.console.requests import LARGEST_BODY, as_struct, read_body, read_fields
from barnabas.services.console.routes import Done, Kind, Match, RouteTable
from barnabas.services.console.settings import ConsoleSettings
from barnabas.services.console.static_files import FOR_EVER, StaticFiles
from barnabas.services.console.turns import ConcurrencyLimit
from barnabas.services.console.visitor import Visitor
from barnabas.common.errors import KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.web.server import (
    BodyEndedError,
    BodyTooLargeError,
    Receive,
    Scope,
    Send,
    headers_of,
)
from barnabas.web.server import read_body as read_request

_logger = safe_logger(__name__)

MOST_STREAMS, MOST_STREAMS_EACH = 500, 100
MOST_DOWNLOADS, MOST_DOWNLOADS_EACH = 50, 8
CHECK_STREAMS = 30.0  # seconds
LOGIN = "/login"


@dataclass
class _Request:
    head: Head
    query: str
    receive: Receive
    answering: ResponseWriter
    match: Match | None = None
    context: Context | None = None

    @property
    def can_log_in(self) -> bool:
        """Is this a page that can be seen after a login? Then the login comes first."""
        is_login = self.match is not None and self.match.route.needs.without_login
        return not self.is_api and not is_login and self.head.method == "GET"

    @property
    def is_api(self) -> bool:
        return self.head.path.startswith("/api/")


class ConsoleApp:
    def __init__(
        self,
        settings: ConsoleSettings,
        clusters: dict[str, Cluster],
        table: RouteTable,
        gate: Authenticator,
        audit: Auditing,
    ) -> None:
        self.settings = settings
        self.clusters = clusters
        self.table = table
        self.gate = gate
        self.audit = audit
        self.static = StaticFiles()
        self._renderer = Renderer(self.static)
        self._streams = ConcurrencyLimit(
            *(MOST_STREAMS, MOST_STREAMS_EACH),
            "Too many pages are open that update themselves; close some, or ask again later",
        )
        self._downloads = ConcurrencyLimit(
            *(MOST_DOWNLOADS, MOST_DOWNLOADS_EACH),
            "Too many downloads are running; wait until one has ended, or ask again later",
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = _request_of(scope, receive, send)
        try:
            await self._answer(request)
        except Exception as error:
            await self._tell(request, error)

    async def _answer(self, request: _Request) -> None:
        head = request.head
        self.gate.check(head)
        if head.path.startswith("/static/"):
            await self._send_static(request)
            return
        if head.path == "/":
            await request.answering.see(f"/c/{urllib.parse.quote(next(iter(self.clusters)), safe='')}")
            return
        request.match = match = self.table.find(head.method, head.path)
        visitor = await self.gate.visitor(head, match)
        request.context = context = self._context(request, visitor, match)
        given = await self._given(request)
        query = as_struct(match.route.query, match.path, given)
        await self._check_rights(head, context, match, query)
        await self._serve(request, match, context, query)

    def _context(self, request: _Request, visitor: Visitor, match: Match) -> Context:
        name = match.path.get("cluster")
        if name is not None and name not in self.clusters:
            raise NotFoundError(f"The console knows no cluster {name!r}")
        current = None if name is None else self.clusters[name]
        more = request.answering.more
        own = (request.head, self.gate, self.audit, more)
        return Context(self.settings, visitor, self.clusters, self.table, current, *own)

    async def _given(self, request: _Request) -> dict[str, Any]:
        if request.head.method != "POST":
            return dict(read_fields(request.query))
        try:
            body = await read_request(request.head.headers, request.receive, LARGEST_BODY)
        except BodyTooLargeError:
            raise TooLargeError(f"The body is larger than {LARGEST_BODY:,} bytes") from None
        except BodyEndedError:
            raise BadInputError("The request ended before its body") from None
        return read_body(request.head.headers.get("content-type", ""), body)

    async def _check_rights(self, head: Head, context: Context, match: Match, query: Any) -> None:
        """By what the page will see, not by what was sent: a parameter may be sent twice."""
        if match.route.kind is Kind.ACTION and self.settings.read_only and not match.route.outside:
            raise RefusedError("This console is read-only: it was started so, and changes nothing")
        parameters = {**msgspec.structs.asdict(query), **match.path}
        for need in match.route.needs.all_of:
            action = need.action(parameters)
            if not await context.visitor.may(context.cluster.name, action):
                await self.audit.refused(head, context, match, action)
                raise refusal(context.visitor, action)

    async def _serve(self, request: _Request, match: Match, context: Context, query: Any) -> None:
        route, answering = match.route, request.answering
        if route.kind is Kind.PAGE:
            page = await route.endpoint(context, query)
            if match.is_api:
                await answering.body(200, answers.JSON, answers.encode(page))
                return
            message = _last(read_fields(request.query).get("message", ""))
            html = self._renderer.page(route, context, query, page, request.head.path, message)
            await answering.body(200, answers.HTML, html)
        elif route.kind is Kind.ACTION:
            await self._act(request, match, context, query)
        elif route.kind is Kind.STREAM:
            await self._stream(request, match, context, query)
        else:
            with self._downloads.take(context.visitor.name):
                await answering.download(await route.endpoint(context, query), request.receive)

    async def _act(self, request: _Request, match: Match, context: Context, query: Any) -> None:
        async with self.audit.act(request.head, context, match, query):
            done = await match.route.endpoint(context, query)
        if match.is_api:
            await request.answering.body(200, answers.JSON, answers.encode(done))
            return
        see: str = context.url(getattr(done, "see", Done.see))
        if done.message:
            message = urllib.parse.urlencode({"message": done.message})
            see = f"{see}{'&' if '?' in see else '?'}{message}"
        await request.answering.see(see)

    async def _stream(self, request: _Request, match: Match, context: Context, query: Any) -> None:
        with self._streams.take(context.visitor.name):
            refused = self._until_refused(request, match, query)
            await request.answering.events(match.route.endpoint(context, query), request.receive, refused)

    async def _until_refused(self, request: _Request, match: Match, query: Any) -> None:
        """A stream may go on for hours, and a session or a right may end meanwhile."""
        while True:
            await asyncio.sleep(CHECK_STREAMS)
            try:
                visitor = await self.gate.visitor(request.head, match)
                await self._check_rights(request.head, self._context(request, visitor, match), match, query)
            except ConsoleError:
                return
            except (ClientError, KafkaError, OSError):
                continue  # the cluster is away: nobody says that the right is gone

    async def _send_static(self, request: _Request) -> None:
        found = self.static.find(request.head.path)
        if found is None:
            raise NotFoundError("There is no such file")
        headers = [("cache-control", FOR_EVER)]
        if "gzip" in request.head.headers.get("accept-encoding", ""):
            body, headers = found.compressed, [*headers, ("content-encoding", "gzip")]
        else:
            body = found.plain
        await request.answering.whole(200, found.kind, body, headers)

    async def _tell(self, request: _Request, error: Exception) -> None:
        """A sentence and a status, or the login."""
        try:
            known = explain(error)
        except Exception:
            _logger.exception("%s %s could not be answered", request.head.method, request.head.path)
            known = ConsoleError("This is a defect of the console; its log says more")
        if request.answering.started:
            _logger.info("%s ended early: %s", request.head.path, known.message)
            return
        if isinstance(known, ElsewhereError):
            await request.answering.see(known.location)
            return
        if isinstance(known, UnauthorizedError) and request.can_log_in:
            wanted = f"{request.head.path}?{request.query}" if request.query else request.head.path
            await request.answering.see(f"{LOGIN}?{urllib.parse.urlencode({'next': wanted})}")
        elif request.is_api:
            told = {"error": known.message, "field": known.field}
            await request.answering.body(known.status, answers.JSON, answers.encode(told))
        else:
            html = self._renderer.error(request.context, known.status, known.message, known.field)
            await request.answering.body(known.status, answers.HTML, html)


def _request_of(scope: Scope, receive: Receive, send: Send) -> _Request:
    headers = headers_of(scope)
    path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").partition("?")[0]
    host = (scope.get("client") or ("", 0))[0]
    head = Head(scope["method"], path, headers, host, scope.get("scheme") == "https")
    answering = ResponseWriter(send, headers.get("accept-encoding", ""), is_head=scope["method"] == "HEAD")
    return _Request(head, scope["query_string"].decode("latin-1"), receive, answering)


def _last(value: Any) -> Any:
    return (value[-1] if value else "") if isinstance(value, list) else value
