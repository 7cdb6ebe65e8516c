"""Redis' protocol, RESP 2: commands to bytes, bytes to replies. No I/O beyond reading a stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

LONGEST_LINE = 64 * 1024
LARGEST_TEXT = 512 << 20  # Redis' own bound

Part = bytes | str | int
Reply = bytes | int | list["Reply"] | Exception | None


class RedisError(Exception):
    """What Redis says against a command, or that it is not Redis."""


def command(*parts: Part) -> bytes:
    said = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
    return b"*%d\r\n" % len(said) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in said)


def commands(many: Iterable[tuple[Part, ...]]) -> bytes:
    return b"".join(command(*one) for one in many)


def read_reply(stream: BinaryIO) -> Reply:
    """A reply that is an error is returned, not raised. EOFError when the connection ends."""
    line = stream.readline(LONGEST_LINE)
    if not line.endswith(b"\r\n"):
        raise EOFError("Redis has closed the connection")
    kind, rest = line[:1], line[1:-2]
    if kind == b"+":
        return rest
    if kind == b"-":
        return RedisError(rest.decode(errors="replace"))
    if kind not in b":$*" or not rest.lstrip(b"-").isdigit():
        raise RedisError(f"this is no answer of Redis: {line[:100]!r}")
    number = int(rest)
    if kind == b":":
        return number
    if number < 0:
        return None
    return [read_reply(stream) for _ in range(number)] if kind == b"*" else _text(stream, number)


def _text(stream: BinaryIO, length: int) -> bytes:
    if length > LARGEST_TEXT:
        raise RedisError(f"a text of {length} bytes is announced")
    data = stream.read(length + 2)
    if len(data) != length + 2:
        raise EOFError("Redis has closed the connection")
    return data[:-2]
