"""Metrics and health over HTTP, on a port of their own: `GET /metrics` and `GET /health`.

Just enough HTTP/1.1 for monitoring: one request per connection, and bounds on everything a client sends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from http import HTTPStatus

from barnabas.metrics.registry import Registry
from barnabas.metrics.text import CONTENT_TYPE, render_lines

HEAD_BYTES = 8192
HEAD_SECONDS = 5.0
BODY_SECONDS = 60.0
CONNECTIONS_AT_ONCE = 32
LINES_PER_TURN = 500  # a broker of many partitions has tens of thousands; clients must not wait for them

Health = Callable[[], tuple[bool, Mapping[str, object]]]
"""Whether the broker can do its work, and what to show to whoever asks."""


class MonitoringServer:
    def __init__(self, registry: Registry, health: Health) -> None:
        self._registry = registry
        self._health = health
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        self._server = await asyncio.start_server(self._serve, host or None, port, limit=HEAD_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            for writer in self._open:
                writer.transport.abort()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            if len(self._open) <= CONNECTIONS_AT_ONCE:
                async with asyncio.timeout(HEAD_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._answer(head))
                async with asyncio.timeout(BODY_SECONDS):
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever does not speak HTTP gets no answer
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            self._open.discard(writer)

    async def _answer(self, head: bytes) -> bytes:
        method, target = _request_line(head)
        if method not in ("GET", "HEAD"):
            return response(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are served here\n")
        path = target.partition("?")[0]
        if path == "/metrics":
            answer = response(HTTPStatus.OK, await self._metrics(), CONTENT_TYPE)
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
