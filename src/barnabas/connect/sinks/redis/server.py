"""A connection to Redis."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from barnabas.connect.sinks.redis.resp import (
    Part,
    RedisError,
    Reply,
    command,
    commands,
    read_reply,
)
from barnabas.security.secret import Secret

PORT = 6379


@dataclass(frozen=True)
class Address:
    url: str
    """`redis://HOST:PORT/DATABASE`, or `rediss://` with TLS."""
    user: str | None = None
    password: Secret | None = None
    ca: str | None = None
    timeout: float = 30.0


class Server:
    """RedisError for what the server refuses, OSError or EOFError when it is away."""

    def __init__(self, address: Address) -> None:
        parts = urlsplit(address.url)
        connection = socket.create_connection((parts.hostname or "", parts.port or PORT), address.timeout)
        if parts.scheme == "rediss":
            context = ssl.create_default_context(cafile=address.ca)
            connection = context.wrap_socket(connection, server_hostname=parts.hostname)
        self._connection = connection
        self._stream = connection.makefile("rb")
        try:
            if address.password is not None:
                user = () if address.user is None else (address.user,)
                self.ask("AUTH", *user, address.password.text)
            if parts.path.strip("/"):
                self.ask("SELECT", parts.path.strip("/"))
        except BaseException:
            self.close()
            raise

    def ask(self, *parts: Part) -> Reply:
        self.send(command(*parts))
        return self.reply()

    def ask_all(self, many: Sequence[tuple[Part, ...]]) -> list[Reply]:
        """One after the other, sent together; the first that is refused is raised when all were answered."""
        self.send(commands(many))
        return self.replies(len(many))

    def send(self, data: bytes) -> None:
        self._connection.sendall(data)

    def replies(self, count: int) -> list[Reply]:
        found = [read_reply(self._stream) for _ in range(count)]
        _raise_first(found)
        return found

    def reply(self) -> Reply:
        [found] = self.replies(1)
        return found

    def close(self) -> None:
        self._stream.close()
        self._connection.close()


def _raise_first(found: Iterable[Reply]) -> None:
    for one in found:
        if isinstance(one, RedisError):
            raise one
