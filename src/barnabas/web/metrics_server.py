"""Metrics and health over HTTP, on a port of their own: `GET /metrics` and `GET /health`.

Just enough HTTP/1.1 for monitoring: one request per connection, and bounds on everything a client sends. A client
that does not read its answer is closed after a while, and at once when a new one needs its place: the oldest first,
because a client that reads is done at once. Requests for metrics that come together share one answer, and few answers
are kept for slow readers.

With credentials (`http_credentials`) metrics and the details of health are for those who have them; that the broker is
up or down, which probes ask for, is told to all. With a TLS context connections begin with a handshake.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from barnabas.config.broker import BrokerConfig
from barnabas.metrics.network_catalogue import MONITORING_CUT_OFF
from barnabas.metrics.registry import Registry
from barnabas.metrics.text import CONTENT_TYPE, render_lines
from barnabas.web.credentials import HttpCredentials

HEAD_BYTES = 8192
PIECE_BYTES = 64 * 1024
LINES_PER_TURN = 500  # a broker of many partitions has tens of thousands; clients must not wait for them

REFUSAL_SECONDS = 0.25  # how long a wrong credential waits for its answer: passwords are not to be guessed

Health = Callable[[], tuple[bool, Mapping[str, object]]]
"""Whether the broker can do its work, and the details to show."""


@dataclass(frozen=True, slots=True)
class MonitoringLimits:
    """What clients may hold, with the setting that each limit comes from."""

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
        """`lines` gives what `/metrics` shows instead of the registry."""
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

    def secure(self, credentials: HttpCredentials, tls: Callable[[], ssl.SSLContext] | None) -> None:
        """Before it is started: who may read metrics, and the TLS context of each new connection."""
        self._credentials, self._tls = credentials, tls

    async def start(self, host: str, port: int) -> None:
        """On loopback without a host; `*` is every address."""
        wanted = None if host == "*" else host or "127.0.0.1"
        self._server = await asyncio.start_server(self._serve, wanted, port, limit=HEAD_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]

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
            # Closing would wait for ever for a client that does not read.
            writer.transport.abort()
            self._open.pop(writer, None)
            self._sending.pop(writer, None)

    async def _send(self, writer: asyncio.StreamWriter, answer: bytes) -> None:
        """Send piece by piece, so that a slow reader has no copy of its own."""
        if len(answer) > PIECE_BYTES:
            self._take_place(self._sending, writer, self._limits.large_answers)
        pieces = memoryview(answer)
        for start in range(0, len(answer), PIECE_BYTES):
            writer.write(pieces[start : start + PIECE_BYTES])
            await writer.drain()

    def _take_place(
        self, places: dict[asyncio.StreamWriter, None], writer: asyncio.StreamWriter, limit: int
    ) -> None:
        """Take a place; the oldest client is closed if there are too many."""
        if len(places) >= limit:
            oldest = next(iter(places))
            del places[oldest]
            oldest.transport.abort()
            self._cut_off.value += 1
        places[writer] = None

    async def _answer(self, head: bytes) -> bytes:
        method, target = _request_line(head)
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
        """The answer with all metrics, rendered once for all requests that come meanwhile."""
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


def response(
    status: HTTPStatus, text: str, content_type: str = "text/plain; charset=utf-8", more: str = ""
) -> bytes:
    body = text.encode("utf-8", "replace")
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode() + body
