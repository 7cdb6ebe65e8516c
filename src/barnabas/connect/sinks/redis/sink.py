"""`to: {redis: {url: "redis://cache:6379/0", key: id, prefix: "order:", password: "${env:REDIS}"}}`"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlsplit

import msgspec

from barnabas.common.durations import seconds_of
from barnabas.connect.endpoints import ConnectorContext, ConnectorEndpoint, fields_of
from barnabas.connect.sinks.redis.commands import (
    CommandShape,
    Kind,
    Part,
    RedisError,
    Reply,
    command,
    commands,
    read_reply,
)
from barnabas.security.authn import Secret
from barnabas.spark import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.connect.sinks.redis.writer import RedisWriter


# -- A connection to Redis -----------------------------------------------------------------------------

PORT = 6379


@dataclass(frozen=True)
class RedisAddress:
    url: str
    """`redis://HOST:PORT/DATABASE`, or `rediss://` with TLS."""
    user: str | None = None
    password: Secret | None = None
    ca: str | None = None
    timeout: float = 30.0


class RedisConnection:
    """Connection to one server. RedisError if it rejects a command, OSError or EOFError if it is unreachable."""

    def __init__(self, address: RedisAddress) -> None:
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
        """Pipeline the commands; raise the first error after all replies are read."""
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


class RedisSink(ConnectorEndpoint, frozen=True):
    """A row is a `hash` of its fields or a `json` string, its key is `prefix` and the values of `key`, and it replaces
    the previous value; a deleted row removes it. Alternatively a row is an entry of the `stream`."""

    is_routed: ClassVar[bool] = False

    url: str
    key: str | tuple[str, ...] = ()
    prefix: str = ""
    kind: Kind = msgspec.field(default="hash", name="as")
    stream: str = ""
    ttl: str | None = None
    """Time to live of keys after their last change."""
    user: str | None = None
    password: Secret | None = None
    ca: str | None = None
    """File of trusted CA certificates, in place of the system's."""

    def location(self) -> str:
        where = f"stream {self.stream}" if self.kind == "stream" else f"keys {self.prefix}*"
        return f"{where} of {self.url}"

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.key,) if isinstance(self.key, str) else self.key

    def open(
        self, session: SparkSession, context: ConnectorContext, columns: Mapping[str, str]
    ) -> RedisWriter:
        from barnabas.connect.sinks.redis.writer import RedisWriter

        self._check(columns)
        return RedisWriter(self, context, columns)

    def shape(self) -> CommandShape:
        return CommandShape(
            self.kind, self.stream, None if self.ttl is None else int(seconds_of(self.ttl) * 1000)
        )

    def address(self) -> RedisAddress:

        return RedisAddress(self.url, self.user, self.password, self.ca)

    def _check(self, columns: Mapping[str, str]) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("redis", "rediss") or not parts.hostname or parts.username or parts.password:
            raise PipelineError(
                "`url` of a sink `redis` must be like `redis://host:6379/0`, or `rediss://` for TLS; set user and "
                "password in `user` and `password`."
            )
        if (self.kind == "stream") != bool(self.stream) or bool(self.keys) == (self.kind == "stream"):
            raise PipelineError(
                "A sink `redis` needs either `key`, the fields of the key, or `as: stream` and `stream`."
            )
        if self.ttl is not None and self.kind == "stream":
            raise PipelineError("`ttl` of a sink `redis` applies to keys, not to stream entries.")
        missing = [key for key in self.keys if key not in columns]
        if missing:
            raise PipelineError(
                f"The rows have no key field {missing[0]}; their fields are {', '.join(fields_of(columns))}."
            )
        try:
            self.shape()
        except ValueError as error:
            raise PipelineError(f"`ttl`: {error}.") from None
