"""uvicorn's connection with two bounds that it lacks: it waits for ever for the head of a request, and takes any number
of connections. With TLS a connection counts before the handshake, which somebody may never finish."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 20.0
"""For the whole head of a request, from its first byte, or from the connection if it is the first."""


HANDSHAKE_SECONDS = 10.0


class BoundedProtocol(H11Protocol):
    most_connections = 1000
    _head_timer: asyncio.TimerHandle | None = None

    handshaking: set[Handshake]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.is_crowded:
            transport.abort()
        self._watch_head()

    @property
    def is_crowded(self) -> bool:
        return len(self.connections) + len(self.handshaking) > self.most_connections

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_head()
        super().connection_lost(exc)

    def _watch_head(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget_head()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _give_up(self) -> None:
        """Unless it waits for the next request, for which there is a timer of uvicorn's."""
        self._head_timer = None
        if self.timeout_keep_alive_task is None:
            self.transport.abort()

    def _forget_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class Handshake(asyncio.Protocol):
    """Until it is done; then the connection is handed over, with what has come by then."""

    def __init__(self, protocol: BoundedProtocol, tls: ssl.SSLContext) -> None:
        self._protocol = protocol
        self._tls = tls
        self._early: list[bytes] = []
        self._is_lost = False
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)
        self._protocol.handshaking.add(self)
        if self._protocol.is_crowded:
            stream.abort()
            return
        stream.pause_reading()  # the first bytes are for the handshake
        self._task = asyncio.get_running_loop().create_task(self._shake_hands(stream))

    async def _shake_hands(self, stream: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(
                stream, self, self._tls, server_side=True, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
        except (OSError, TimeoutError):  # an SSLError is an OSError
            stream.abort()
            return
        finally:
            self._protocol.handshaking.discard(self)
        if secured is not None and not self._is_lost:
            self._hand_over(secured)

    def _hand_over(self, secured: asyncio.Transport) -> None:
        secured.set_protocol(self._protocol)
        self._protocol.connection_made(secured)
        for data in self._early:
            self._protocol.data_received(data)

    def data_received(self, data: bytes) -> None:
        self._early.append(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._is_lost = True
        self._protocol.handshaking.discard(self)


def bounded_protocol(connections: int, tls: ssl.SSLContext | None = None) -> Callable[..., asyncio.Protocol]:
    """What makes the protocols of one server."""
    bounds: dict[str, Any] = {"most_connections": connections, "handshaking": set()}
    bounded: type[BoundedProtocol] = type("BoundedProtocol", (BoundedProtocol,), bounds)
    if tls is None:
        return bounded
    return lambda **settings: Handshake(bounded(**settings), tls)
