"""Redis commands of rows. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Literal

# -- RESP 2: encodes commands, parses replies. No I/O beyond reading a stream --------------------------

MAX_LINE = 64 * 1024
MAX_TEXT = 512 << 20  # limit of Redis

Part = bytes | str | int
Reply = bytes | int | list["Reply"] | Exception | None


class RedisError(Exception):
    """Error reply of Redis, or a reply that does not follow its protocol."""


def command(*parts: Part) -> bytes:
    arguments = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
    return b"*%d\r\n" % len(arguments) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in arguments)


def commands(many: Iterable[tuple[Part, ...]]) -> bytes:
    return b"".join(command(*one) for one in many)


def read_reply(stream: BinaryIO) -> Reply:
    """Read one reply. An error reply is returned, not raised. EOFError when the connection ends."""
    line = stream.readline(MAX_LINE)
    if not line.endswith(b"\r\n"):
        raise EOFError("Redis closed the connection")
    kind, rest = line[:1], line[1:-2]
    if kind == b"+":
        return rest
    if kind == b"-":
        return RedisError(rest.decode(errors="replace"))
    if kind not in b":$*" or not rest.lstrip(b"-").isdigit():
        raise RedisError(f"not a valid Redis response: {line[:100]!r}")
    number = int(rest)
    if kind == b":":
        return number
    if number < 0:
        return None
    return [read_reply(stream) for _ in range(number)] if kind == b"*" else _text(stream, number)


def _text(stream: BinaryIO, length: int) -> bytes:
    if length > MAX_TEXT:
        raise RedisError(f"a string of {length} bytes is too long")
    data = stream.read(length + 2)
    if len(data) != length + 2:
        raise EOFError("Redis closed the connection")
    return data[:-2]


Kind = Literal["hash", "json", "stream"]
Command = tuple[Part, ...]


@dataclass(frozen=True)
class CommandShape:
    kind: Kind
    stream: str = ""
    ttl_ms: int | None = None
    """Time to live of a key after its last change; None: no expiry."""

    def commands(self, key: str, fields: Mapping[str, str], *, deleted: bool) -> Iterator[Command]:
        """Yield the commands of one row. `fields` are its non-null values as strings; `json` holds a JSON string."""
        if self.kind == "stream":
            told = {**fields, "deleted": "true"} if deleted else fields
            yield ("XADD", self.stream, "*", *_flat(told or {"empty": "true"}))
            return
        if deleted or (self.kind == "hash" and not fields):
            yield ("DEL", key)
            return
        if self.kind == "json":
            expiry = () if self.ttl_ms is None else ("PX", self.ttl_ms)
            yield ("SET", key, fields["json"], *expiry)
            return
        yield ("DEL", key)  # also removes fields that the row no longer has
        yield ("HSET", key, *_flat(fields))
        if self.ttl_ms is not None:
            yield ("PEXPIRE", key, self.ttl_ms)


def _flat(fields: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(part for field in fields.items() for part in field)
