"""Metrics and health over HTTP, on a port of their own: `GET /metrics` and `GET /health`.

Just enough HTTP/1.1 for monitoring: one request per connection, and bounds on everything a client sends. A client
that does not take its answer is cut off after a while, and at once when others need its place: the oldest first,
because one that reads is done in no time. Those who ask for metrics together share one answer, and few answers are
kept for slow readers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from http import HTTPStatus

from barnabas.metrics.catalogue import MONITORING_CUT_OFF
from barnabas.metrics.registry import Registry
from barnabas.metrics.text import CONTENT_TYPE, render_lines

HEAD_BYTES = 8192
HEAD_SECONDS = 5.0
BODY_SECONDS = 20.0
CONNECTIONS_AT_ONCE = 32
ANSWERS_AT_ONCE = 8  # that are larger than a piece, and on their way
PIECE_BYTES = 64 * 1024
LINES_PER_TURN = 500  # a broker of many partitions has tens of thousands; clients must not wait for them

Health = Callable[[], tuple[bool, Mapping[str, object]]]
"""Whether the broker can do its work, and what to show to those who ask."""


class MonitoringServer:
    def __init__(
        self,
        registry: Registry,
        health: Health,
        *,
        head_seconds: float = HEAD_SECONDS,
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        self._registry = registry
        self._health = health
        self._head_seconds = head_seconds
        self._body_seconds = body_seconds
        self._server: asyncio.Server | None = None
        # In the order in which they came.
        self._open: dict[asyncio.StreamWriter, None] = {}
        self._sending: dict[asyncio.StreamWriter, None] = {}
        self._rendering: asyncio.Task[bytes] | None = None
        self._cut_off = registry.counter(MONITORING_CUT_OFF).labels()
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        self._server = await asyncio.start_server(self._serve, host or None, port, limit=HEAD_BYTES)
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
        self._take_place(self._open, writer, CONNECTIONS_AT_ONCE)
        try:
            async with asyncio.timeout(self._head_seconds):
                head = await reader.readuntil(b"\r\n\r\n")
            answer = await self._answer(head)
            async with asyncio.timeout(self._body_seconds):
                await self._send(writer, answer)
                writer.close()
                await writer.wait_closed()
        except TimeoutError:
            self._cut_off.value += 1
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # who does not speak HTTP, or does not listen, gets no answer
        finally:
            # Closing would wait for a client that does not read, for ever.
            writer.transport.abort()
            self._open.pop(writer, None)
            self._sending.pop(writer, None)

    async def _send(self, writer: asyncio.StreamWriter, answer: bytes) -> None:
        """Send piece by piece, so that a slow reader has no copy of its own."""
        if len(answer) > PIECE_BYTES:
            self._take_place(self._sending, writer, ANSWERS_AT_ONCE)
        pieces = memoryview(answer)
        for start in range(0, len(answer), PIECE_BYTES):
            writer.write(pieces[start : start + PIECE_BYTES])
            await writer.drain()

    def _take_place(
        self, places: dict[asyncio.StreamWriter, None], writer: asyncio.StreamWriter, limit: int
    ) -> None:
        """Let one more in; the oldest has to go if there are too many."""
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
        path = target.partition("?")[0]
        if path == "/metrics":
            answer = await self._rendered()
        elif path in ("/health", "/healthz"):
            healthy, details = self._health()
            status = HTTPStatus.OK if healthy else HTTPStatus.SERVICE_UNAVAILABLE
            answer = response(status, json.dumps(details) + "\n", "application/json")
        else:
            answer = response(HTTPStatus.NOT_FOUND, "there are /metrics and /health\n")
        return answer if method == "GET" else answer[: answer.index(b"\r\n\r\n") + 4]

    async def _metrics(self) -> str:
        lines: list[str] = []
        for number, line in enumerate(render_lines(self._registry)):
            lines.append(line)
            if number % LINES_PER_TURN == LINES_PER_TURN - 1:
                await asyncio.sleep(0)
        return "".join(lines)

    async def _rendered(self) -> bytes:
        """The answer with all metrics, worked out once for those who ask while it is."""
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


def response(status: HTTPStatus, text: str, content_type: str = "text/plain; charset=utf-8") -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
