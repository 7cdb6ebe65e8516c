"""Responses: HTML, JSON, events and downloads, with the headers common to all."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import urllib.parse
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import msgspec

from barnabas.services.console.routes import Download, Event
from barnabas.web.server import Receive, Send

HTML = "text/html; charset=utf-8"
JSON = "application/json"
EVENTS = "text/event-stream"
SMALLEST_COMPRESSED = 1024
HEARTBEAT = 15.0  # seconds; a proxy in between closes what is silent for longer

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_SAFETY = [
    ("content-security-policy", _POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
]
Headers = list[tuple[str, str]]


def encode(value: Any) -> bytes:
    return msgspec.json.encode(value)


class ResponseWriter:
    """One request's answer. Nothing can be changed once `started`."""

    def __init__(self, send: Send, accepted: str, *, is_head: bool) -> None:
        self._send = send
        self._compresses = "gzip" in accepted
        self._is_head = is_head
        self.more: Headers = []
        """Headers added while the request is handled, such as a cookie."""
        self.started = False

    async def body(self, status: int, kind: str, body: bytes, headers: Headers | None = None) -> None:
        if self._compresses and len(body) >= SMALLEST_COMPRESSED:
            body = gzip.compress(body, 5)
            headers = [*(headers or ()), ("content-encoding", "gzip")]
        await self.whole(status, kind, body, [("cache-control", "no-store"), *(headers or ())])

    async def whole(self, status: int, kind: str, body: bytes, headers: Headers) -> None:
        """As it is."""
        length = [("content-type", kind), ("content-length", str(len(body))), ("vary", "Accept-Encoding")]
        await self._start(status, [*length, *headers])
        await self._send({"type": "http.response.body", "body": b"" if self._is_head else body})

    async def see(self, location: str) -> None:
        await self._start(303, [("location", location), ("content-length", "0")])
        await self._send({"type": "http.response.body", "body": b""})

    async def events(
        self, events: AsyncIterator[Event], receive: Receive, refused: Coroutine[Any, Any, None]
    ) -> None:
        """Send until the generator ends, the browser disconnects or the user is `refused`."""
        await self._start(200, [("content-type", EVENTS), ("cache-control", "no-store")])
        sending = asyncio.create_task(self._send_events(events))
        others = [asyncio.create_task(_until_gone(receive)), asyncio.create_task(refused)]
        await asyncio.wait([sending, *others], return_when=asyncio.FIRST_COMPLETED)
        for task in (*others, sending):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sending

    async def download(self, download: Download, receive: Receive) -> None:
        name = urllib.parse.quote(download.name, safe="")
        headers = [
            ("content-type", download.media_type),
            ("content-disposition", f"attachment; filename*=UTF-8''{name}"),
            ("cache-control", "no-store"),
        ]
        await self._start(200, headers)
        gone = asyncio.create_task(_until_gone(receive))
        try:
            async for chunk in download.chunks:
                if gone.done():
                    return
                await self._piece(chunk)
            await self._send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
            await _end(download.chunks)

    async def _send_events(self, events: AsyncIterator[Event]) -> None:
        """Send a comment when idle, so that the browser or a proxy does not time out."""
        upcoming: asyncio.Task[Event] | None = None
        try:
            while True:
                upcoming = upcoming or asyncio.ensure_future(_next(events))
                done, _ = await asyncio.wait([upcoming], timeout=HEARTBEAT)
                if not done:
                    await self._piece(b": still here\n\n")
                    continue
                try:
                    event = upcoming.result()
                except StopAsyncIteration:
                    break
                upcoming = None
                await self._piece(b"event: %b\ndata: %b\n\n" % (event.name.encode(), encode(event.data)))
            await self._send({"type": "http.response.body", "body": b""})
        finally:
            if upcoming is not None:
                upcoming.cancel()
                with contextlib.suppress(BaseException):
                    await upcoming
            await _end(events)

    async def _start(self, status: int, headers: Headers) -> None:
        self.started = True
        encoded = [
            (name.encode(), _one_line(value).encode("latin-1", "replace"))
            for name, value in [*headers, *_SAFETY, *self.more]
        ]
        await self._send({"type": "http.response.start", "status": status, "headers": encoded})

    async def _piece(self, body: bytes) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": True})


def _one_line(value: str) -> str:
    """Remove line breaks: a name must not inject a header."""
    return value if value.isprintable() else "".join(each for each in value if each.isprintable())


async def _next(events: AsyncIterator[Event]) -> Event:
    return await anext(events)


async def _end(iterator: AsyncIterator[Any]) -> None:
    close = getattr(iterator, "aclose", None)
    if close is not None:
        await close()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
