"""Requests from bytes to their handler, and responses back to bytes.

A handler's first stage runs when the request is read. It returns the response; or it returns None and calls
`request.respond` later; or it is a coroutine, which runs as a task while the connection's next requests wait.
Requests of many elements are served in slices (`network/requests/heavy_requests.py`).
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from struct import Struct
from struct import error as StructError  # noqa: N812  (an exception, despite its name)
from types import CoroutineType
from typing import TYPE_CHECKING, Final

from barnabas.common.errors import ErrorCode
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.metrics import RequestMetrics
from barnabas.network.frames import ANSWERS
from barnabas.network.limits import QUEUED_OUTPUT_BYTES
from barnabas.network.requests.denials import error_response
from barnabas.network.requests.heavy_requests import HeavyRequests, RequestBudget
from barnabas.network.requests.request import Request
from barnabas.network.requests.request_tasks import RequestTasks
from barnabas.network.requests.routes import (
    ELEMENTS_AT_ONCE,
    FastPath,
    Handler,
    HandlerFunction,
    Result,
    Route,
)
from barnabas.network.requests.rules import OPEN, RequestSecurity
from barnabas.network.requests.stages import BEFORE_AUTHENTICATION, compiled, log_refused
from barnabas.protocol.api import APIS, ApiKey
from barnabas.protocol.framing import decode_client_id
from barnabas.protocol.messages.metadata import ApiVersion, ApiVersionsResponse
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import ProtocolError, TooManyElementsError, skip_tagged_fields
from barnabas.security.authn.sasl import SaslLogin
from barnabas.security.quotas import Quotas

if TYPE_CHECKING:
    from barnabas.network.connection import Connection


# -- Routes: one for each API and version, built on first use from the handler table --------------------


class RouteTable:
    """Routes are built with the current authorizer and quotas, and rebuilt when these change."""

    def __init__(
        self, handlers: Iterable[Handler], metrics: RequestMetrics, security: RequestSecurity
    ) -> None:
        self.handlers = {handler.request_class.api_key: handler for handler in handlers}
        self._metrics = metrics
        self._security = security
        self._routes: dict[int, Route] = {}  # by the first four bytes of a request: API key, version

    @property
    def security(self) -> RequestSecurity:
        """The authorizer and the quotas of the routes."""
        return self._security

    def use(self, security: RequestSecurity) -> None:
        """Change the authorizer and the quotas: routes are rebuilt."""
        self._security = security
        self._routes.clear()

    def use_quotas(self, quotas: Quotas) -> None:
        """Change the kinds of quotas that are enforced."""
        self.use(self._security._replace(quotas=quotas))

    def route_of(self, api_key: int, version: int) -> Route | None:
        """Return a route, built on first use; None if the API or version is not supported."""
        key, handler = api_key << 16 | version, self.handlers.get(api_key)
        route = self._routes.get(key)
        if route is None and handler is not None and handler.min_version <= version <= handler.max_version:
            functions = compiled(handler, version, self._security)
            route = self._routes[key] = Route(handler, version, self._metrics, functions)
        return route


# -- Error injection, for tests of clients --------------------------------------------------------------


class Injections:
    """Injected errors that are pending, by API in the order of injection."""

    def __init__(self) -> None:
        self.waiting: dict[int, list[ErrorCode]] = {}

    def add(self, api_key: int, error: ErrorCode, times: int) -> None:
        if times > 0:
            self.waiting.setdefault(api_key, []).extend([error] * times)

    def clear(self) -> None:
        self.waiting.clear()

    def answer(self, message: Message, route: Route) -> Message | None:
        """Return a response with the next error for this API, or None when its handler is to answer."""
        errors = self.waiting.get(route.api_key)
        if not errors:
            return None
        error = errors.pop(0)
        if not errors:
            del self.waiting[route.api_key]
        return error_response(message, error, route.version)


log = rate_limited_logger(__name__)

DEFAULT_BUDGET = RequestBudget()

_write_correlation_id: Final = Struct(">i").pack_into


class Dispatcher(RouteTable, RequestTasks):
    """Serves the requests of all connections from one table of handlers.

    One object: `dispatch` runs for every request, and looks up routes in its own attribute.
    """

    def __init__(
        self,
        broker: object,
        handlers: Iterable[Handler],
        metrics: RequestMetrics,
        *,
        slow_request_seconds: float = 0.0,
        budget: RequestBudget = DEFAULT_BUDGET,
        monotonic: Callable[[], float] = time.monotonic,
        security: RequestSecurity = OPEN,
    ) -> None:
        RouteTable.__init__(self, handlers, metrics, security)
        RequestTasks.__init__(self, HeavyRequests(metrics, budget))
        self.broker = broker
        self.now = monotonic
        self.slow_request_seconds = slow_request_seconds or float("inf")
        self.injections = Injections()
        self.refused_as_broker: Counter[str] = Counter()  # broker-only requests of clients, by API

    def inject(self, api_key: int, error: int, times: int = 1) -> None:
        """Answer the next requests of an API with an error, without calling its handler: for tests of
        clients.
        """
        self.injections.add(api_key, ErrorCode(error), times)

    # Hot path

    def authenticate(
        self,
        connection: Connection,
        buffer: memoryview,
        position: int,
        end: int,
        route_key: int,
        correlation_id: int,
        client_id_length: int,
    ) -> None:
        """The stage before `dispatch` for a client that has to authenticate: other requests are not decoded."""
        api_key, login = route_key >> 16, connection.login
        has_ended = login is not None and login.is_done  # the session: it has to authenticate again
        if api_key == ApiKey.SASL_HANDSHAKE or (api_key in BEFORE_AUTHENTICATION and not has_ended):
            self.dispatch(connection, buffer, position, end, route_key, correlation_id, client_id_length)
        else:
            name = APIS[api_key].name if api_key in APIS else f"API {api_key}"
            connection.close(f"{name} {_too_early(login)}", logging.WARNING)

    def dispatch(  # noqa: C901  (one frame for every request there is; each branch leads out of it)
        self,
        connection: Connection,
        buffer: memoryview,
        position: int,
        end: int,
        route_key: int,
        correlation_id: int,
        client_id_length: int,
    ) -> None:
        """Handle one request. `position` is after the fixed part of its header, at the client id."""
        try:
            route = self._routes.get(route_key)
            if route is None:
                route = self._find_route(connection, route_key, correlation_id)
                if route is None:
                    return
            body = position + client_id_length if client_id_length > 0 else position
            if buffer[position:body] != connection.client_id_bytes:
                remember_client_id(connection, buffer, position, end, client_id_length)
            if route.flexible:
                body = body + 1 if buffer[body] == 0 else skip_tagged_fields(buffer[:end], body)
            if end - body > route.bytes_at_once:
                self._take_heavy(connection, route, correlation_id, buffer[body:end])
                return
            known = route.shortcut
            if known is not None and serve_fast(
                self, connection, route, known, correlation_id, buffer, body, end
            ):
                return
            if route.is_coroutine:
                buffer, body, end = memoryview(bytearray(buffer[body:end])), 0, end - body
            decode = route.decode
            message, _ = decode(buffer, body, end, ELEMENTS_AT_ONCE)
            if known is not None:
                connection.known_head = known.learn(message, buffer, body, end, connection.known_head)
        except TooManyElementsError:
            assert route is not None
            self._take_heavy(connection, route, correlation_id, buffer[body:end])
            return
        except (ProtocolError, StructError, IndexError, UnicodeDecodeError) as error:
            connection.close(f"a request cannot be decoded: {error}", logging.WARNING)
            return
        request = Request(self, connection, route, correlation_id)
        route.count.value += 1
        try:
            if self.injections.waiting:
                response = self.call(request, message, route.function)
            else:
                function = route.function
                response = function(self.broker, request, message)
            if (
                response is None
                or type(response) is CoroutineType
                or connection.closed
                or connection.unanswered
            ):
                self.settle(connection, request, response)
                return
            # The rest is `settle` for most requests, which are answered at once.
            answer = request.answer = route.write(correlation_id, response)  # type: ignore[arg-type]
            now, observe = self.now, route.observe
            seconds = now() - request.received
            observe(seconds)
            if seconds > self.slow_request_seconds:
                self.log_slow(request, seconds)
            output = connection.output
            output.add(answer)
            if output.queued_bytes > QUEUED_OUTPUT_BYTES:
                connection.pause(ANSWERS)
        except Exception as error:
            self.fail(request, error)

    def call(self, request: Request, message: Message, function: HandlerFunction) -> Result[Message]:
        """Run the first stage of a heavy request, or answer it with an injected error."""
        injected = self.injections.answer(message, request.route)
        return injected if injected is not None else function(self.broker, request, message)

    def settle(
        self,
        connection: Connection,
        request: Request,
        response: Result[Message],
    ) -> None:
        """Process the result of the first stage: a response, nothing yet, or a coroutine."""
        if connection.closed:
            return
        if response is None:
            if request.answer is None:
                request.is_queued = True
                connection.unanswered.append(request)
                return
        elif isinstance(response, Coroutine):
            self._start_task(connection, request, self._run(request, response))
            return
        else:
            request.answer = request.route.write(request.correlation_id, response)
            self.finished(request)
        if connection.unanswered:
            request.is_queued = True
            connection.unanswered.append(request)
        elif request.answer:
            output = connection.output
            output.add(request.answer)
            if output.queued_bytes > QUEUED_OUTPUT_BYTES:
                connection.pause(ANSWERS)

    def finished(self, request: Request) -> None:
        """Record the latency of an answered request."""
        now, observe = self.now, request.route.observe
        seconds = now() - request.received
        observe(seconds)
        if seconds > self.slow_request_seconds:
            self.log_slow(request, seconds)

    def log_slow(self, request: Request, seconds: float) -> None:
        if seconds - request.client_wait > self.slow_request_seconds:
            log.warning("slow request: %r took %.3f s (barnabas.slow.request.ms)", request, seconds)

    def _take_heavy(
        self, connection: Connection, route: Route, correlation_id: int, body: memoryview
    ) -> None:
        """Serve a request from a copy, because it takes several turns.

        Broker-only requests of clients are not even decoded: an error for each element would take long.
        """
        request = Request(self, connection, route, correlation_id)
        if route.handler.is_brokers_only(route.version) and not request.context.is_privileged:
            log_refused(request)
            connection.close(f"{route.name} of {len(body)} bytes, which only brokers send", logging.WARNING)
            return
        request.is_large = True
        route.count.value += 1
        problem = self._heavy.weigh(request, len(body))
        copied = bytearray() if problem else bytearray(body)  # logs modify batches in place
        self._start_task(connection, request, self._serve(request, memoryview(copied), problem))

    # Unsupported requests

    def _find_route(self, connection: Connection, route_key: int, correlation_id: int) -> Route | None:
        """Return the route; close the connection if the API or version is not supported."""
        api_key, version = route_key >> 16, route_key & 0xFFFF
        route = self.route_of(api_key, version)
        if route is not None:
            return route
        handler = self.handlers.get(api_key)
        if handler is not None and api_key == ApiKey.API_VERSIONS:
            self._name_versions(connection, handler, correlation_id)
        else:
            name = APIS[api_key].name if api_key in APIS else f"API {api_key}"
            connection.close(f"{name} version {version} is not served", logging.INFO)
        return None

    def _name_versions(self, connection: Connection, handler: Handler, correlation_id: int) -> None:
        """Answer an ApiVersions of a newer client in version 0, so that it retries (KIP-511)."""
        route = self._find_route(connection, ApiKey.API_VERSIONS << 16, correlation_id)
        assert route is not None
        versions = ApiVersion(ApiKey.API_VERSIONS, handler.min_version, handler.max_version)
        response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[versions])
        self.settle(connection, Request(self, connection, route, correlation_id), response)


def serve_fast(
    dispatcher: Dispatcher,
    connection: Connection,
    route: Route,
    known: FastPath,
    correlation_id: int,
    buffer: memoryview,
    body: int,
    end: int,
) -> bool:
    """Serve a request by its route's fast path, as `Dispatcher.dispatch` would; return False if that is not
    possible.

    It is not possible if the response has to wait for earlier ones.
    """
    if not connection.known_head or connection.unanswered or dispatcher.injections.waiting:
        return False
    try:
        served = known.serve(dispatcher, connection, correlation_id, buffer, body, end)
        if not served:
            if served is None:
                return False
            route.count.value += 1
            return True
        route.count.value += 1
        _write_correlation_id(served, 4, correlation_id)  # after the length
        now, observe = dispatcher.now, route.observe
        seconds = now() - connection.received
        observe(seconds)
        if seconds > dispatcher.slow_request_seconds:
            dispatcher.log_slow(Request(dispatcher, connection, route, correlation_id), seconds)
        output = connection.output
        output.add_bytes(served)
        if output.queued_bytes > QUEUED_OUTPUT_BYTES:
            connection.pause(ANSWERS)
    except Exception as error:
        dispatcher.fail(Request(dispatcher, connection, route, correlation_id), error)
    return True


def _too_early(login: SaslLogin | None) -> str:
    if login is None or login.principal is None:
        return "before it has authenticated"
    if login.is_done:
        return "after the end of its session: it has to authenticate again (connections.max.reauth.ms)"
    return "while it authenticates again"


def remember_client_id(
    connection: Connection, buffer: memoryview, position: int, end: int, length: int
) -> None:
    """Decode and keep a connection's client id; most clients send the same one with every request."""
    connection.context = connection.context.named(decode_client_id(buffer, position, end, length))
    connection.client_id_bytes = None if length == -1 else bytes(buffer[position : position + length])
