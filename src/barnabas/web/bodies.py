"""Headers and bodies of requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

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
