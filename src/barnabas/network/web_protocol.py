"""uvicorn's connection with two bounds that it lacks: it waits for ever for the head of a request, and takes any number
of connections."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 20.0
"""For the whole head of a request, from its first byte, or from the connection if it is the first."""


class BoundedProtocol(H11Protocol):
    most_connections = 1000
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most_connections:
            transport.abort()
        self._watch_head()

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


def bounded_protocol(connections: int) -> type[BoundedProtocol]:
    return type("BoundedProtocol", (BoundedProtocol,), {"most_connections": connections})
