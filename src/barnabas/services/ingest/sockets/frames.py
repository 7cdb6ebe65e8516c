"""Messages as they come out of a connection, and what finds them there."""

from __future__ import annotations

from typing import NamedTuple, Protocol

BETWEEN = b"\n\r\x00"
"""Bytes around a frame that belong to none: ends of lines, and the NUL of old senders."""


class Frame(NamedTuple):
    data: bytes
    is_whole: bool = True
    """Not whole: cut because it is too long, or the connection ended in the middle."""


class FramingError(Exception):
    """No way to find the next message."""


class Decoder(Protocol):
    """Of one connection. Bytes in, frames out."""

    error: FramingError | None
    """After it nothing more is found."""

    def feed(self, data: bytes) -> list[Frame]: ...

    def end(self) -> list[Frame]:
        """The connection has ended: what is there of the last message."""
        ...
