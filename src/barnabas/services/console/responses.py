"""Responses: compressed pages and JSON, Server-Sent Events, downloads, and the security headers of all of them."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import urllib.parse
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import msgspec

from barnabas.services.console.routes import DownloadResponse, Event
from barnabas.web import Headers, Receive, ResponseWriter, Send

HTML = "text/html; charset=utf-8"
JSON = "application/json"
EVENTS = "text/event-stream"
MIN_COMPRESSED = 1024
HEARTBEAT = 15.0  # seconds; proxies close connections that are silent for longer

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_SECURITY_HEADERS = [
    ("content-security-policy", _POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
]
FIRST_CHUNK_SECONDS = 2.0  # a download that has found nothing by then begins without knowing if it will fail


def encode(value: Any) -> bytes:
    return msgspec.json.encode(value)


class ConsoleResponseWriter(ResponseWriter):
    def __init__(self, send: Send, accept_encoding: str, *, is_head: bool) -> None:
        super().__init__(send, _SECURITY_HEADERS, is_head=is_head)
        self._compresses = "gzip" in accept_encoding

    async def page(self, status: int, content_type: str, body: bytes) -> None:
        """Send a page or JSON: not cached, and compressed if it is large enough."""
        headers = [("cache-control", "no-store")]
        if self._compresses and len(body) >= MIN_COMPRESSED:
            body = gzip.compress(body, 5)
            headers.append(("content-encoding", "gzip"))
        await self.file(status, content_type, body, headers)

    async def file(self, status: int, content_type: str, body: bytes, headers: Headers) -> None:
        """Send a body that is compressed already, or not to be compressed."""
        await self.send(status, content_type, body, [("vary", "Accept-Encoding"), *headers])

    async def events(
        self, events: AsyncIterator[Event], receive: Receive, refused: Coroutine[Any, Any, None]
    ) -> None:
        """Send until the generator ends, the browser disconnects or the user is `refused`."""
        await self.start(200, [("content-type", EVENTS), ("cache-control", "no-store")])
        sending = asyncio.create_task(self._send_events(events))
        others = [asyncio.create_task(_until_gone(receive)), asyncio.create_task(refused)]
        await asyncio.wait([sending, *others], return_when=asyncio.FIRST_COMPLETED)
        for task in (*others, sending):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sending

    async def download(self, download: DownloadResponse, receive: Receive) -> None:
        name = urllib.parse.quote(download.name, safe="")
        headers = [
            ("content-type", download.media_type),
            ("content-disposition", f"attachment; filename*=UTF-8''{name}"),
            ("cache-control", "no-store"),
        ]
        disconnected = asyncio.create_task(_until_gone(receive))
        first = asyncio.ensure_future(_next_chunk(download.chunks))
        try:
            await asyncio.wait([first], timeout=FIRST_CHUNK_SECONDS)
            if first.done():
                first.result()  # an error, such as an unknown topic, still gets its status
            await self.start(200, headers)
            chunk = await first
            while chunk is not None and not disconnected.done():
                await self.write(chunk)
                chunk = await _next_chunk(download.chunks)
            if chunk is None:
                await self.write(b"", is_last=True)
        finally:
            disconnected.cancel()
            first.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await first
            await _end(download.chunks)

    async def _send_events(self, events: AsyncIterator[Event]) -> None:
        """Send a comment when idle, so that the browser or a proxy does not time out."""
        upcoming: asyncio.Task[Event] | None = None
        try:
            while True:
                upcoming = upcoming or asyncio.ensure_future(_next(events))
                done, _ = await asyncio.wait([upcoming], timeout=HEARTBEAT)
                if not done:
                    await self.write(b": still here\n\n")
                    continue
                try:
                    event = upcoming.result()
                except StopAsyncIteration:
                    break
                upcoming = None
                await self.write(b"event: %b\ndata: %b\n\n" % (event.name.encode(), encode(event.data)))
            await self.write(b"", is_last=True)
        finally:
            if upcoming is not None:
                upcoming.cancel()
                with contextlib.suppress(BaseException):
                    await upcoming
            await _end(events)


async def _next_chunk(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)


async def _next(events: AsyncIterator[Event]) -> Event:
    return await anext(events)


async def _end(iterator: AsyncIterator[Any]) -> None:
    close = getattr(iterator, "aclose", None)
    if close is not None:
        await close()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
