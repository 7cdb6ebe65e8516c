"""Metrics and health over HTTP, on a separate port: `GET /metrics` and `GET /health`.

Just enough HTTP/1.1 for monitoring: one request per connection, and bounds on everything a client sends. A client
that does not read its response is closed after a timeout, or at once when a new client needs its slot (oldest first).
Concurrent requests for metrics share one response, and few responses are kept for slow readers.

With credentials (`web.credentials`), metrics and health details need authentication; whether the broker is up is
public, for probes. With a TLS context, connections begin with a handshake.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from barnabas.common.addresses import is_loopback
from barnabas.config.broker import BrokerConfig
from barnabas.metrics.network_catalogue import MONITORING_CUT_OFF
from barnabas.metrics.registry import Registry
from barnabas.metrics.text import CONTENT_TYPE, render_lines
from barnabas.web.credentials import HttpCredentials
from barnabas.web.origins import is_foreign

HEAD_BYTES = 8192
PIECE_BYTES = 64 * 1024
LINES_PER_TURN = 500  # a broker of many partitions has tens of thousands; clients must not wait for them

REFUSAL_SECONDS = 0.25  # delay of the response to a wrong credential, against guessing

Health = Callable[[], tuple[bool, Mapping[str, object]]]
"""(is healthy, details)."""


@dataclass(frozen=True, slots=True)
class MonitoringLimits:
    """Limits on clients, each with the setting it comes from."""

    connections: int = 32  # barnabas.metrics.max.connections
    large_answers: int = 8  # barnabas.metrics.max.large.answers: larger than a piece, and being sent
    request_seconds: float = 5.0  # barnabas.metrics.request.timeout.ms
    answer_seconds: float = 20.0  # barnabas.metrics.answer.timeout.ms


def monitoring_limits_from(config: BrokerConfig) -> MonitoringLimits:
    return MonitoringLimits(
        connections=config["barnabas.metrics.max.connections"],
        large_answers=config["barnabas.metrics.max.large.answers"],
        request_seconds=config["barnabas.metrics.request.timeout.ms"] / 1000,
        answer_seconds=config["barnabas.metrics.answer.timeout.ms"] / 1000,
    )


class MonitoringServer:
    def __init__(
        self,
        registry: Registry,
        health: Health,
        limits: MonitoringLimits | None = None,
        *,
        lines: Callable[[], Iterator[str]] | None = None,
    ) -> None:
        """`lines` replaces the registry as the content of `/metrics`."""
        self._lines = lines or (lambda: render_lines(registry))
        self._credentials = HttpCredentials()
        self._tls: Callable[[], ssl.SSLContext] | None = None
        self._health = health
        self._limits = limits or MonitoringLimits()
        self._server: asyncio.Server | None = None
        # In the order in which they came.
        self._open: dict[asyncio.StreamWriter, None] = {}
        self._sending: dict[asyncio.StreamWriter, None] = {}
        self._rendering: asyncio.Task[bytes] | None = None
        self._cut_off = registry.counter(MONITORING_CUT_OFF).labels()
        self.port = 0
        self._is_local = False

    def secure(self, credentials: HttpCredentials, tls: Callable[[], ssl.SSLContext] | None) -> None:
        """Set the credentials and the TLS context of new connections; call before `start`."""
        self._credentials, self._tls = credentials, tls

    async def start(self, host: str, port: int) -> None:
        """On loopback without a host; `*` is every address."""
        wanted = None if host == "*" else host or "127.0.0.1"
        self._server = await asyncio.start_server(self._serve, wanted, port, limit=HEAD_BYTES)
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
        self._take_place(self._open, writer, self._limits.connections)
        try:
            async with asyncio.timeout(self._limits.request_seconds):
                if self._tls is not None:
                    await writer.start_tls(self._tls())
                head = await reader.readuntil(b"\r\n\r\n")
            answer = await self._answer(head)
            async with asyncio.timeout(self._limits.answer_seconds):
                await self._send(writer, answer)
                writer.close()
                await writer.wait_closed()
        except TimeoutError:
            self._cut_off.value += 1
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client that does not speak HTTP, or does not read, gets no answer
        finally:
            # Closing would block indefinitely on a client that does not read.
            writer.transport.abort()
            self._open.pop(writer, None)
            self._sending.pop(writer, None)

    async def _send(self, writer: asyncio.StreamWriter, answer: bytes) -> None:
        """Send in pieces, so that a slow reader does not hold a copy of the response."""
        if len(answer) > PIECE_BYTES:
            self._take_place(self._sending, writer, self._limits.large_answers)
        pieces = memoryview(answer)
        for start in range(0, len(answer), PIECE_BYTES):
            writer.write(pieces[start : start + PIECE_BYTES])
            await writer.drain()

    def _take_place(
        self, places: dict[asyncio.StreamWriter, None], writer: asyncio.StreamWriter, limit: int
    ) -> None:
        """Register a client; close the oldest one beyond the limit."""
        if len(places) >= limit:
            oldest = next(iter(places))
            del places[oldest]
            oldest.transport.abort()
            self._cut_off.value += 1
        places[writer] = None

    async def _answer(self, head: bytes) -> bytes:
        method, target = _request_line(head)
        if is_foreign(method, _headers(head), is_local=self._is_local):
            text = "this page is for this machine and not for pages of other sites: use 127.0.0.1 in its address\n"
            return response(HTTPStatus.FORBIDDEN, text)
        if method not in ("GET", "HEAD"):
            return response(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are served here\n")
        path, is_known = target.partition("?")[0], self._credentials.accept(head)
        if path in ("/health", "/healthz"):
            answer = self._healthy(is_known=is_known)
        elif not is_known:
            answer = await self._refused()
        elif path == "/metrics":
            answer = await self._rendered()
        else:
            answer = response(HTTPStatus.NOT_FOUND, "there are /metrics and /health\n")
        return answer if method == "GET" else answer[: answer.index(b"\r\n\r\n") + 4]

    def _healthy(self, *, is_known: bool) -> bytes:
        healthy, details = self._health()
        status = HTTPStatus.OK if healthy else HTTPStatus.SERVICE_UNAVAILABLE
        told = details if is_known else {"status": details["status"]}
        return response(status, json.dumps(told) + "\n", "application/json")

    async def _refused(self) -> bytes:
        await asyncio.sleep(REFUSAL_SECONDS)
        text = "metrics are for users of barnabas.metrics.users.file and tokens of barnabas.metrics.tokens.file\n"
        return response(
            HTTPStatus.UNAUTHORIZED, text, more=f"WWW-Authenticate: {self._credentials.challenge}\r\n"
        )

    async def _metrics(self) -> str:
        lines: list[str] = []
        for number, line in enumerate(self._lines()):
            lines.append(line)
            if number % LINES_PER_TURN == LINES_PER_TURN - 1:
                await asyncio.sleep(0)
        return "".join(lines)

    async def _rendered(self) -> bytes:
        """Response with all metrics, rendered once for concurrent requests."""
        if self._rendering is None:
            self._rendering = asyncio.create_task(self._render())
        return await asyncio.shield(self._rendering)

    async def _render(self) -> bytes:
        try:
            return response(HTTPStatus.OK, await self._metrics(), CONTENT_TYPE)
        finally:
            self._rendering = None


def _request_line(head: bytes) -> tuple[str, str]:
    words = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
    return (words[0], words[1]) if len(words) == 3 else ("", "")


def _headers(head: bytes) -> dict[str, str]:
    pairs = (line.decode("latin-1").partition(":") for line in head.split(b"\r\n")[1:] if line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def response(
    status: HTTPStatus, text: str, content_type: str = "text/plain; charset=utf-8", more: str = ""
) -> bytes:
    body = text.encode("utf-8", "replace")
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode() + body
