"""Metrics and health over HTTP, on a separate port: `GET /metrics` and `GET /health`.

Just enough HTTP/1.1 for monitoring: one request per connection, and limits on everything that a client sends. A client
that does not read its response is closed after a timeout, or at once when a new client needs its slot (oldest first).
Concurrent requests for metrics share one response, and few responses are kept for slow readers.

With credentials (`web.credentials`), metrics and health details need authentication; the status alone is public, for
probes. With a TLS context, connections begin with a handshake.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from http import HTTPStatus

from barnabas.common.addresses import is_loopback
from barnabas.config.broker import BrokerConfig
from barnabas.metrics import CONTENT_TYPE, MONITORING_CUT_OFF, Registry, render_lines
from barnabas.web.credentials import HttpCredentials
from barnabas.web.origins import is_foreign

HEAD_BYTES = 8192
CHUNK_BYTES = 64 * 1024
LINES_PER_SLICE = (
    500  # a broker with many partitions has tens of thousands, and the loop must not wait for them
)

UNAUTHORIZED_DELAY = 0.25  # seconds before a wrong credential is rejected, against guessing

Health = Callable[[], tuple[bool, Mapping[str, object]]]
"""Returns (is healthy, details)."""

_Clients = dict[asyncio.StreamWriter, None]  # the oldest first


@dataclass(frozen=True, slots=True)
class MetricsServerLimits:
    """Limits on clients, each with its setting."""

    connections: int = 32  # barnabas.metrics.max.connections
    large_answers: int = (
        8  # barnabas.metrics.max.large.answers: responses in progress that exceed CHUNK_BYTES
    )
    request_seconds: float = 5.0  # barnabas.metrics.request.timeout.ms
    answer_seconds: float = 20.0  # barnabas.metrics.answer.timeout.ms


def metrics_server_limits(config: BrokerConfig) -> MetricsServerLimits:
    return MetricsServerLimits(
        connections=config["barnabas.metrics.max.connections"],
        large_answers=config["barnabas.metrics.max.large.answers"],
        request_seconds=config["barnabas.metrics.request.timeout.ms"] / 1000,
        answer_seconds=config["barnabas.metrics.answer.timeout.ms"] / 1000,
    )


def _always_up() -> tuple[bool, Mapping[str, object]]:
    return True, {"status": "up"}


class MetricsServer:
    def __init__(
        self,
        registry: Registry,
        health: Health = _always_up,
        limits: MetricsServerLimits | None = None,
        *,
        lines: Callable[[], Iterator[str]] | None = None,
    ) -> None:
        """`lines` replaces the registry as the content of `/metrics`."""
        self._lines = lines or (lambda: render_lines(registry))
        self._credentials = HttpCredentials()
        self._tls: Callable[[], ssl.SSLContext] | None = None
        self._health = health
        self._limits = limits or MetricsServerLimits()
        self._server: asyncio.Server | None = None
        self._open: _Clients = {}
        self._sending: _Clients = {}
        self._rendering: asyncio.Task[bytes] | None = None
        self._cut_off = registry.counter(MONITORING_CUT_OFF).labels()
        self.port = 0
        self._is_local = False

    def secure(self, credentials: HttpCredentials, tls: Callable[[], ssl.SSLContext] | None) -> None:
        """Set the credentials and the TLS context of new connections; call before `start`."""
        self._credentials, self._tls = credentials, tls

    async def start(self, host: str, port: int) -> None:
        """Listen on `host`: `*` for every address, empty for loopback."""
        bind_host = None if host == "*" else host or "127.0.0.1"
        self._started(await asyncio.start_server(self._serve, bind_host, port, limit=HEAD_BYTES))

    async def serve(self, listening: socket.socket) -> None:
        """Accept the clients of a socket that is bound already."""
        self._started(await asyncio.start_server(self._serve, sock=listening, limit=HEAD_BYTES))

    def _started(self, server: asyncio.Server) -> None:
        self._server = server
        self.port = self._server.sockets[0].getsockname()[1]
        self._is_local = all(is_loopback(each.getsockname()[0]) for each in self._server.sockets)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            for writer in self._open:
                writer.transport.abort()
            if self._rendering is not None:
                self._rendering.cancel()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._add_client(self._open, writer, self._limits.connections)
        try:
            async with asyncio.timeout(self._limits.request_seconds):
                if self._tls is not None:
                    await writer.start_tls(self._tls())
                head = await reader.readuntil(b"\r\n\r\n")
            response = await self._respond(head)
            async with asyncio.timeout(self._limits.answer_seconds):
                await self._send(writer, response)
                writer.close()
                await writer.wait_closed()
        except TimeoutError:
            self._cut_off.value += 1
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client does not speak HTTP, or disconnected
        finally:
            # Closing would block indefinitely on a client that does not read.
            writer.transport.abort()
            self._open.pop(writer, None)
            self._sending.pop(writer, None)

    async def _send(self, writer: asyncio.StreamWriter, response: bytes) -> None:
        """Send in chunks, so that a slow reader does not hold a copy of the response."""
        if len(response) > CHUNK_BYTES:
            self._add_client(self._sending, writer, self._limits.large_answers)
        view = memoryview(response)
        for start in range(0, len(response), CHUNK_BYTES):
            writer.write(view[start : start + CHUNK_BYTES])
            await writer.drain()

    def _add_client(self, clients: _Clients, writer: asyncio.StreamWriter, limit: int) -> None:
        """Register a client; close the oldest one beyond the limit."""
        if len(clients) >= limit:
            oldest = next(iter(clients))
            del clients[oldest]
            oldest.transport.abort()
            self._cut_off.value += 1
        clients[writer] = None

    async def _respond(self, head: bytes) -> bytes:
        method, target = _request_line(head)
        if is_foreign(method, _headers(head), is_local=self._is_local):
            text = "requests from pages of other sites are rejected; use 127.0.0.1 as the host name\n"
            return _encode(HTTPStatus.FORBIDDEN, text)
        if method not in ("GET", "HEAD"):
            return _encode(HTTPStatus.METHOD_NOT_ALLOWED, "method not allowed; use GET or HEAD\n")
        path, is_authenticated = target.partition("?")[0], self._credentials.accept(head)
        if path in ("/health", "/healthz"):
            response = await self._health_response(with_details=is_authenticated)
        elif not is_authenticated:
            response = await self._unauthorized()
        elif path == "/metrics":
            response = await self._metrics()
        else:
            response = _encode(HTTPStatus.NOT_FOUND, "not found; use /metrics or /health\n")
        return response if method == "GET" else response[: response.index(b"\r\n\r\n") + 4]

    async def _health_response(self, *, with_details: bool) -> bytes:
        is_healthy, details = await self.state()
        status = HTTPStatus.OK if is_healthy else HTTPStatus.SERVICE_UNAVAILABLE
        shown = details if with_details else {"status": details["status"]}
        return _encode(status, json.dumps(shown) + "\n", "application/json")

    async def _unauthorized(self) -> bytes:
        await asyncio.sleep(UNAUTHORIZED_DELAY)
        text = (
            "authentication required: a user of barnabas.metrics.users.file or a token of "
            "barnabas.metrics.tokens.file\n"
        )
        challenge = f"WWW-Authenticate: {self._credentials.challenge}\r\n"
        return _encode(HTTPStatus.UNAUTHORIZED, text, header=challenge)

    async def _metrics(self) -> bytes:
        """Response with all metrics, rendered once for concurrent requests."""
        if self._rendering is None:
            self._rendering = asyncio.create_task(self._render())
        return await asyncio.shield(self._rendering)

    async def _render(self) -> bytes:
        try:
            return _encode(HTTPStatus.OK, await self.page(), CONTENT_TYPE)
        finally:
            self._rendering = None

    # -- content ------------------------------------------------------------------------------------

    async def page(self) -> str:
        lines: list[str] = []
        for number, line in enumerate(self._lines(), 1):
            lines.append(line)
            if number % LINES_PER_SLICE == 0:
                await asyncio.sleep(0)
        return "".join(lines)

    async def state(self) -> tuple[bool, Mapping[str, object]]:
        """Health, and its details."""
        return self._health()


class MetricsThread:
    """A MetricsServer on an event loop in a thread, for programs without a loop."""

    def __init__(self, server: MetricsServer, host: str, port: int) -> None:
        self._server = server
        self._stop = asyncio.Event()
        self._started: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run(host, port)), name="metrics", daemon=True
        )
        self._thread.start()
        try:
            self._loop = self._started.result()
        except OSError:
            self._thread.join()
            raise

    @property
    def port(self) -> int:
        return self._server.port

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _run(self, host: str, port: int) -> None:
        try:
            await self._server.start(host, port)
        except OSError as error:
            self._started.set_exception(error)
            return
        self._started.set_result(asyncio.get_running_loop())
        await self._stop.wait()
        await self._server.stop()


def run_in_thread(registry: Registry, host: str, port: int) -> MetricsThread:
    """Serve metrics until `close` is called. Raises OSError if the port cannot be bound."""
    return MetricsThread(MetricsServer(registry), host, port)


def _request_line(head: bytes) -> tuple[str, str]:
    """Method and target; empty if the line is malformed."""
    words = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
    return (words[0], words[1]) if len(words) == 3 else ("", "")


def _headers(head: bytes) -> dict[str, str]:
    pairs = (line.decode("latin-1").partition(":") for line in head.split(b"\r\n")[1:] if line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _encode(
    status: HTTPStatus, text: str, content_type: str = "text/plain; charset=utf-8", header: str = ""
) -> bytes:
    body = text.encode("utf-8", "replace")
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\n{header}Connection: close\r\n\r\n"
    )
    return head.encode() + body
