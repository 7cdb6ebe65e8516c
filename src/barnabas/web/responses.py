"""Writes responses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
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
