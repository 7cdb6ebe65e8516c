"""Message framing on TCP connections (RFC 6587). Bytes in, frames out.

Senders use octet counting (`57 <34>1 ...`) or newline-terminated messages, some both on one connection. The first byte
of each frame decides: an octet count begins with 1 to 9, a message never does. After an invalid count the next message
cannot be located, so the connection must be closed.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

# -- Frames and the decoder interface -------------------------------------------------------------------

BETWEEN = b"\n\r\x00"
"""Bytes to skip between frames: line ends, and the NUL sent by old clients."""


class Frame(NamedTuple):
    data: bytes
    is_whole: bool = True
    """False: truncated because it is too long, or the connection closed in the middle."""


class FramingError(Exception):
    """Cannot locate the next message."""


class StreamDecoder(Protocol):
    """Decoder of one connection. Bytes in, frames out."""

    error: FramingError | None
    """Set once framing is lost; no more frames follow."""

    def feed(self, data: bytes) -> list[Frame]: ...

    def end(self) -> list[Frame]:
        """Return the rest of the last message after the connection closed."""
        ...


SPACE = 0x20
_FIRST_DIGITS, _DIGITS = frozenset(b"123456789"), frozenset(b"0123456789")


class FrameDecoder:
    """Decoder of one connection. Buffers at most one message of up to `longest` bytes."""

    def __init__(self, longest: int, *, counted: bool = True) -> None:
        """With `counted=False` every message is a line, even if it begins with a digit."""
        self._longest = longest
        self._counts = _FIRST_DIGITS if counted else frozenset[int]()
        self._buffer = b""
        self._skipping = False  # inside the rest of an oversized line
        self.error: FramingError | None = None
        """Set once framing is lost; no more frames follow."""

    @property
    def waiting(self) -> int:
        """Buffered bytes of an incomplete message."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[Frame]:
        frames: list[Frame] = []
        if self.error is not None:
            return frames
        data = self._buffer + data if self._buffer else data
        position, end = 0, len(data)
        try:
            while position < end:
                after = self._next(data, position, frames)
                if after == position:
                    break
                position = after
        except FramingError as error:
            self.error = error
            position = end
        self._buffer = data[position:]
        return frames

    def end(self) -> list[Frame]:
        """Return the rest of the last message after the connection closed."""
        rest, self._buffer = self._buffer, b""
        if not rest or self.error is not None:
            return []
        if rest[0] in self._counts:
            rest = rest.partition(b" ")[2]
            return [Frame(rest, is_whole=False)] if rest else []
        return [Frame(rest)] if (rest := rest.rstrip(BETWEEN)) else []

    def _next(self, data: bytes, position: int, frames: list[Frame]) -> int:
        """Decode one frame; return the next position, or the same one if more bytes are needed."""
        if self._skipping:
            return self._skip(data, position)
        first = data[position]
        if first in self._counts:
            return self._counted(data, position, frames)
        if first in BETWEEN:
            return position + 1
        return self._line(data, position, frames)

    def _line(self, data: bytes, position: int, frames: list[Frame]) -> int:
        newline = data.find(b"\n", position, position + self._longest + 1)
        if newline >= 0:
            if line := data[position:newline].rstrip(BETWEEN):
                frames.append(Frame(line))
            return newline + 1
        if len(data) - position <= self._longest:
            return position
        frames.append(Frame(data[position : position + self._longest], is_whole=False))
        self._skipping = True
        return position + self._longest

    def _skip(self, data: bytes, position: int) -> int:
        newline = data.find(b"\n", position)
        if newline < 0:
            return len(data)
        self._skipping = False
        return newline + 1

    def _counted(self, data: bytes, position: int, frames: list[Frame]) -> int:
        max_digits = len(str(self._longest))
        here = position
        while here < len(data) and here - position <= max_digits and data[here] in _DIGITS:
            here += 1
        if here - position > max_digits:
            raise FramingError(f"an octet count has more than {max_digits} digits")
        if here == len(data):
            return position
        if data[here] != SPACE:
            raise FramingError("a message begins with a digit, but not with an octet count")
        count = int(data[position:here])
        if count > self._longest:
            raise FramingError(f"a message of {count} octets; at most {self._longest} are allowed")
        begin, end = here + 1, here + 1 + count
        if end > len(data):
            return position
        if message := data[begin:end].rstrip(BETWEEN):
            frames.append(Frame(message))
        return end
