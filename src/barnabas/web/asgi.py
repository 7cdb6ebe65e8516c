"""ASGI requests and responses: headers, bounded bodies, and a writer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any

CHUNK_BYTES = 1024 * 1024  # of a body per write: 20 MB at once would block the loop for 20 ms

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = Sequence[tuple[str, str]]


class ResponseWriter:
    """The response to one request. Status and headers are final once `started`."""

    def __init__(self, send: Send, common_headers: Headers = (), *, is_head: bool = False) -> None:
        self._send = send
        self._common_headers = common_headers
        self._is_head = is_head
        self.extra_headers: list[tuple[str, str]] = []
        """Headers that are set while the request is handled, such as a cookie."""
        self.started = False

    async def send(self, status: int, content_type: str, body: bytes, headers: Headers = ()) -> None:
        """Send a complete response."""
        length = str(len(body))
        await self.start(status, [("content-type", content_type), ("content-length", length), *headers])
        sent = b"" if self._is_head else body
        for start in range(0, max(1, len(sent)), CHUNK_BYTES):
            end = start + CHUNK_BYTES
            await self.write(sent[start:end], is_last=end >= len(sent))

    async def redirect(self, location: str) -> None:
        """Send 303: the browser gets `location` with GET."""
        await self.start(303, [("location", location), ("content-length", "0")])
        await self.write(b"", is_last=True)

    async def start(self, status: int, headers: Headers) -> None:
        self.started = True
        encoded = [
            (name.encode(), _one_line(value).encode("latin-1", "replace"))
            for name, value in [*headers, *self._common_headers, *self.extra_headers]
        ]
        await self._send({"type": "http.response.start", "status": status, "headers": encoded})

    async def write(self, chunk: bytes, *, is_last: bool = False) -> None:
        await self._send({"type": "http.response.body", "body": chunk, "more_body": not is_last})


def _one_line(value: str) -> str:
    """Remove line breaks: a name must not inject a header."""
    return value if value.isprintable() else "".join(each for each in value if each.isprintable())


Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class BodyTooLargeError(Exception):
    """The body exceeds the limit; the remaining bytes are not read."""


class BodyEndedError(Exception):
    """The client disconnected before the end of the body."""


def headers_of(scope: Scope) -> dict[str, str]:
    """Headers by lower-case name; the last of duplicates wins."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


async def read_body(
    headers: Mapping[str, str],
    receive: Receive,
    max_bytes: int,
    on_chunk: Callable[[int], None] | None = None,
) -> bytes:
    """Read at most `max_bytes`, whatever Content-Length says.

    `on_chunk` is called with the size of each chunk before the chunk is kept.
    """
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > max_bytes:
        raise BodyTooLargeError
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise BodyEndedError
        chunk = message.get("body", b"")
        if on_chunk is not None:
            on_chunk(len(chunk))
        body += chunk
        if len(body) > max_bytes:
            raise BodyTooLargeError
        if not message.get("more_body"):
            return bytes(body)
