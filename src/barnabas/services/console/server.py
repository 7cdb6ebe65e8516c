"""Console server: clusters, authentication and HTTP.

async with ConsoleServer(ConsoleSettings((ClusterSettings("default", "127.0.0.1:9092"),))) as console:
    console.url
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import urllib.parse
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from barnabas.client import Address, ClientError
from barnabas.common.errors import KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.security.tls import https_context
from barnabas.services.console.access.audit import AuditTopicWriter, ConsoleAudit
from barnabas.services.console.access.authenticators import gate_of
from barnabas.services.console.access.sessions import Cookie
from barnabas.services.console.clusters import Cluster
from barnabas.services.console.context import Auditing, RequestScope, refusal
from barnabas.services.console.errors import (
    BadInputError,
    ConsoleError,
    ElsewhereError,
    RefusedError,
    RequestTooLargeError,
    ResourceNotFoundError,
    UnauthorizedError,
    explain,
)
from barnabas.services.console.frame import LAST_CLUSTER, PageFrame, frame_of
from barnabas.services.console.pages import route_table
from barnabas.services.console.rendering import Renderer
from barnabas.services.console.requests import (
    MAX_BODY,
    MAX_BODY_BEFORE_LOGIN,
    as_struct,
    read_fields,
    read_struct,
)
from barnabas.services.console.responses import HTML, JSON, ConsoleResponseWriter, encode
from barnabas.services.console.routes import ActionResult, ConsoleMatch, PageTable, RouteKind
from barnabas.services.console.scanning.process import Pool
from barnabas.services.console.settings import ConsoleSettings
from barnabas.services.console.static_files import FOR_EVER, StaticFiles
from barnabas.services.console.turns import ConcurrencyLimit
from barnabas.services.console.users import Authenticator, ConsoleUser, Head, UnauthenticatedUser
from barnabas.web import (
    BodyEndedError,
    BodyTooLargeError,
    Receive,
    Scope,
    Send,
    Server,
    WebServer,
    bind,
    headers_of,
    read_body,
)

# -- ASGI application: one request in; a page, JSON, a stream or a download out ------------------------

_logger = safe_logger(__name__)

MAX_STREAMS, MAX_STREAMS_EACH = 500, 100
MAX_DOWNLOADS, MAX_DOWNLOADS_EACH = 50, 8
CHECK_STREAMS = 30.0  # seconds
LOGIN = "/login"


@dataclass
class _Request:
    head: Head
    query: bytes
    receive: Receive
    response: ConsoleResponseWriter
    match: ConsoleMatch | None = None
    context: RequestScope | None = None

    @property
    def can_log_in(self) -> bool:
        """True for a page: redirect to the login instead of failing."""
        is_login = self.match is not None and self.match.route.right.without_login
        return not self.is_api and not is_login and self.head.method == "GET"

    @property
    def is_api(self) -> bool:
        return self.head.path.startswith("/api/")


class ConsoleApp:
    def __init__(
        self,
        settings: ConsoleSettings,
        clusters: dict[str, Cluster],
        table: PageTable,
        gate: Authenticator,
        audit: Auditing,
    ) -> None:
        self.settings = settings
        self.clusters = clusters
        self.table = table
        self.gate = gate
        self.audit = audit
        self._key = secrets.token_bytes(32)
        self.static = StaticFiles()
        self._renderer = Renderer(self.static)
        self._streams = ConcurrencyLimit(
            *(MAX_STREAMS, MAX_STREAMS_EACH),
            "Too many pages are open that update themselves; close some, or ask again later",
        )
        self._downloads = ConcurrencyLimit(
            *(MAX_DOWNLOADS, MAX_DOWNLOADS_EACH),
            "Too many downloads are running; wait until one has ended, or ask again later",
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = _request_of(scope, receive, send)
        try:
            await self._answer(request)
        except Exception as error:
            await self._send_error(request, error)

    async def _answer(self, request: _Request) -> None:
        head = request.head
        self.gate.check(head)
        if head.path.startswith("/static/"):
            await self._send_static(request)
            return
        if head.path == "/":
            await request.response.redirect(f"/c/{urllib.parse.quote(next(iter(self.clusters)), safe='')}")
            return
        request.match = match = self.table.find(head.method, head.path)
        user = await self.gate.user(head, match)
        request.context = context = self._context(request, user, match)
        limit = MAX_BODY_BEFORE_LOGIN if isinstance(user, UnauthenticatedUser) else MAX_BODY
        query = await self._query(request, match, limit)
        await self._check_rights(head, context, match, query)
        await self._serve(request, match, context, query)

    def _context(self, request: _Request, user: ConsoleUser, match: ConsoleMatch) -> RequestScope:
        name = match.parameters.get("cluster")
        if name is not None and name not in self.clusters:
            raise ResourceNotFoundError(f"The console knows no cluster {name!r}")
        if name is not None:
            user = user.on(name)
        current = None if name is None else self.clusters[name]
        more = request.response.extra_headers
        own = (request.head, self.gate, self.audit, more)
        return RequestScope(self.settings, user, self.clusters, self.table, current, *own)

    async def _query(self, request: _Request, match: ConsoleMatch, limit: int) -> Any:
        if request.head.method != "POST":
            return as_struct(match.route.query, match.parameters, read_fields(request.query))
        try:
            body = await read_body(request.head.headers, request.receive, limit)
        except BodyTooLargeError:
            raise RequestTooLargeError(f"The body is larger than {limit:,} bytes") from None
        except BodyEndedError:
            raise BadInputError("The request ended before its body") from None
        content_type = request.head.headers.get("content-type", "")
        if len(body) <= MAX_BODY_BEFORE_LOGIN:
            return read_struct(match.route.query, match.parameters, content_type, body)
        return await asyncio.to_thread(read_struct, match.route.query, match.parameters, content_type, body)

    async def _check_rights(self, head: Head, context: RequestScope, match: ConsoleMatch, query: Any) -> None:
        """Check the parsed parameters rather than the raw ones: a parameter may be sent twice."""
        if match.route.kind is RouteKind.ACTION and self.settings.read_only and not match.route.outside:
            raise RefusedError("This console is read-only: it was started so, and changes nothing")
        parameters = {**msgspec.structs.asdict(query), **match.parameters}
        for need in match.route.right.all_of:
            action = need.action(parameters)
            if not await context.user.allows(action):
                await self.audit.refused(head, context, match, action)
                raise refusal(context.user, action)

    async def _serve(self, request: _Request, match: ConsoleMatch, context: RequestScope, query: Any) -> None:
        route, response = match.route, request.response
        if route.kind is RouteKind.PAGE:
            page = await route.endpoint(context, query)
            if match.is_api:
                await response.page(200, JSON, encode(page))
                return
            message = self._message(request, context)
            frame = await self._frame(request, context)
            html = self._renderer.page(route, context, query, page, frame, message)
            await response.page(200, HTML, html)
        elif route.kind is RouteKind.ACTION:
            await self._act(request, match, context, query)
        elif route.kind is RouteKind.STREAM:
            await self._stream(request, match, context, query)
        else:
            with self._downloads.take(context.user.name):
                await response.download(await route.endpoint(context, query), request.receive)

    async def _frame(self, request: _Request, context: RequestScope) -> PageFrame | None:
        """None before login. Pages of no cluster get the frame of the cluster that was shown last."""
        if isinstance(context.user, UnauthenticatedUser) or request.head.path == LOGIN:
            return None
        last = Cookie(LAST_CLUSTER, request.head.is_tls)
        if context.current is not None:
            name = urllib.parse.quote(context.current.name, safe="")
            if len(self.clusters) > 1 and last.value(request.head.headers) != name:
                context.headers.append(last.setting(name))
        else:
            name = urllib.parse.unquote(last.value(request.head.headers))
            name = name if name in self.clusters else next(iter(self.clusters))
            context = replace(context, current=self.clusters[name], user=context.user.on(name))
        return await frame_of(context, request.head.path)

    async def _frame_of_error(self, request: _Request) -> PageFrame | None:
        """An error is shown without the frame if that fails, too."""
        try:
            return None if request.context is None else await self._frame(request, request.context)
        except Exception as error:
            _logger.info("%s has no frame: %s", request.head.path, error)
            return None

    async def _act(self, request: _Request, match: ConsoleMatch, context: RequestScope, query: Any) -> None:
        async with self.audit.act(request.head, context, match, query):
            done = await match.route.endpoint(context, query)
        if match.is_api:
            await request.response.page(200, JSON, encode(done))
            return
        see: str = context.url(getattr(done, "see", ActionResult.see))
        if done.message:
            seal = self._seal(context, urllib.parse.urlsplit(see).path, done.message)
            message = urllib.parse.urlencode({"message": done.message, "seal": seal})
            see = f"{see}{'&' if '?' in see else '?'}{message}"
        await request.response.redirect(see)

    def _message(self, request: _Request, context: RequestScope) -> str:
        """Message of the action that redirected here. Links from other sites cannot set one."""
        fields = read_fields(request.query)
        message, seal = (fields.get(name, [""])[-1] for name in ("message", "seal"))
        is_ours = hmac.compare_digest(seal.encode(), self._seal(context, request.head.path, message).encode())
        return message if is_ours else ""

    def _seal(self, context: RequestScope, path: str, message: str) -> str:
        """Sign a message for this user and page; valid until the console restarts."""
        text = "\0".join((context.user.name, path, message))
        return hmac.new(self._key, text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()[:32]

    async def _stream(
        self, request: _Request, match: ConsoleMatch, context: RequestScope, query: Any
    ) -> None:
        with self._streams.take(context.user.name):
            refused = self._until_refused(request, match, query)
            await request.response.events(match.route.endpoint(context, query), request.receive, refused)

    async def _until_refused(self, request: _Request, match: ConsoleMatch, query: Any) -> None:
        """Recheck periodically: a session or a right may end during a long stream."""
        while True:
            await asyncio.sleep(CHECK_STREAMS)
            try:
                user = await self.gate.user(request.head, match)
                await self._check_rights(request.head, self._context(request, user, match), match, query)
            except ConsoleError:
                return
            except (ClientError, KafkaError, OSError):
                continue  # the cluster is unreachable: keep the stream

    async def _send_static(self, request: _Request) -> None:
        found = self.static.find(request.head.path)
        if found is None:
            raise ResourceNotFoundError("File not found")
        headers = [("cache-control", FOR_EVER)]
        if "gzip" in request.head.headers.get("accept-encoding", ""):
            body, headers = found.compressed, [*headers, ("content-encoding", "gzip")]
        else:
            body = found.plain
        await request.response.file(200, found.kind, body, headers)

    async def _send_error(self, request: _Request, error: Exception) -> None:
        """Answer with a status and a message, or redirect to the login."""
        try:
            known = explain(error)
        except Exception:
            _logger.exception("%s %s could not be answered", request.head.method, request.head.path)
            known = ConsoleError("This is a defect of the console; its log says more")
        if request.response.started:
            _logger.info("%s ended early: %s", request.head.path, known.message)
            return
        if isinstance(known, ElsewhereError):
            await request.response.redirect(known.location)
            return
        if isinstance(known, UnauthorizedError) and request.can_log_in:
            wanted = (
                f"{request.head.path}?{request.query.decode('latin-1')}"
                if request.query
                else request.head.path
            )
            await request.response.redirect(f"{LOGIN}?{urllib.parse.urlencode({'next': wanted})}")
        elif request.is_api:
            body = {"error": known.message, "field": known.field}
            await request.response.page(known.status, JSON, encode(body))
        else:
            frame = await self._frame_of_error(request)
            html = self._renderer.error(request.context, known.status, known.message, known.field, frame)
            await request.response.page(known.status, HTML, html)


def _request_of(scope: Scope, receive: Receive, send: Send) -> _Request:
    headers = headers_of(scope)
    path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").partition("?")[0]
    host = (scope.get("client") or ("", 0))[0]
    head = Head(scope["method"], path, headers, host, scope.get("scheme") == "https")
    response = ConsoleResponseWriter(
        send, headers.get("accept-encoding", ""), is_head=scope["method"] == "HEAD"
    )
    return _Request(head, scope["query_string"], receive, response)


class ConsoleServer(Server):
    def __init__(self, settings: ConsoleSettings) -> None:
        self.settings = settings
        self.pool = Pool()
        self.clusters = {each.name: Cluster(each, settings, self.pool) for each in settings.clusters}
        self._tls = None if settings.tls is None else https_context("the console", settings.tls)
        self._audit_topic = self._topic_of_audit()
        self.audit = ConsoleAudit(settings.data, settings.access.audit, self._audit_topic)
        self.gate = gate_of(settings, self.audit)
        self.app = ConsoleApp(settings, self.clusters, route_table(), self.gate, self.audit)
        self.port = settings.listen.port
        self._http: WebServer | None = None

    @property
    def url(self) -> str:
        scheme = "http" if self._tls is None else "https"
        return self.settings.url or f"{scheme}://{Address(self.settings.listen.host, self.port)}"

    async def start(self) -> None:
        """Return once pages are served; clusters may still be unreachable."""
        listening = bind(*self.settings.listen)
        try:
            self.port = listening.getsockname()[1]
            for cluster in self.clusters.values():
                await cluster.start()
            self._http = WebServer(self.app, self._tls, self.settings.http)
            await self._http.start(listening)
        except BaseException:
            listening.close()
            await self.stop()
            raise

    async def stop(self) -> None:
        if self._http is not None:
            await self._http.stop()
            self._http = None
        if self._audit_topic is not None:
            await self._audit_topic.close()
        for cluster in self.clusters.values():
            await cluster.stop()
        await self.pool.close()
        await self.gate.close()

    def _topic_of_audit(self) -> AuditTopicWriter | None:
        wanted = self.settings.access.audit
        if not wanted.topic:
            return None
        cluster = self.clusters[wanted.cluster or next(iter(self.clusters))]
        return AuditTopicWriter(cluster.client, wanted.topic)
