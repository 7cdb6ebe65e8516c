"""The network side of a broker: listeners, connections, and what the connections share."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterable

from barnabas.log_lines import limited_logger, tell_left_out
from barnabas.server.connection import Connection
from barnabas.server.connections import Brokers, Connections
from barnabas.server.dispatch import Dispatcher
from barnabas.server.exposure import warn_if_exposed
from barnabas.server.limits import RECEIVE_BUFFER_BYTES, UNLIMITED, Limits
from barnabas.server.listener import Listener, plain_address
from barnabas.server.memory import MemoryPool
from barnabas.server.pace import Pace
from barnabas.server.reachability import warn_if_unreachable
from barnabas.server.residency import Warmer
from barnabas.server.transport import PlainTransport

log = limited_logger(__name__)

SWEEP_SECONDS = 1.0
SWEEP_PAUSE = 0.02
SWEPT_AT_ONCE = 250
RELIEF_SECONDS = 0.25


class SocketServer:
    """Start it with `start`, stop it with `stop`. Everything happens on the loop that started it."""

    def __init__(
        self,
        listeners: Iterable[Listener],
        dispatcher: Dispatcher,
        limits: Limits | None = None,
        *,
        brokers: Brokers = frozenset(),
        brokers_listener: str | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.listeners = list(listeners)
        self.dispatcher = dispatcher
        self.limits = limits or Limits()
        self.monotonic = monotonic
        self.memory = MemoryPool(self.limits.queued_bytes, self.limits.queued_bytes_per_address)
        self.memory.on_wait = self._relieve_soon
        self.connections = Connections(self.limits, brokers, brokers_listener)
        self.closed = self.connections.closed
        self._brokers_listener = brokers_listener
        self.warmer = Warmer()
        self._pace = Pace(self.limits.connections_per_second, monotonic)
        self.receive_buffer = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
        self.loop: asyncio.AbstractEventLoop
        self._sweeper: asyncio.TimerHandle | None = None
        self._relief: asyncio.Handle | None = None

    def open(self) -> None:
        """Bind all addresses, so that ports are known; clients are accepted from `start` on."""
        for listener in self.listeners:
            listener.open()

    def close(self) -> None:
        """Let go of the addresses without having served anybody."""
        for listener in self.listeners:
            listener.close()
        self.warmer.close()

    async def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        for listener in self.listeners:
            listener.start(self.loop, self._accepted, self._pace_of(listener))
            warn_if_unreachable(listener)
        warn_if_exposed(self.listeners)
        self._sweep()

    def _pace_of(self, listener: Listener) -> Pace:
        """Brokers do not have to queue up with clients."""
        return Pace(UNLIMITED, self.monotonic) if listener.name == self._brokers_listener else self._pace

    async def stop(self, patience: float = 10.0) -> None:
        """Accept and read no more, let what is in flight be answered, then close everything."""
        for listener in self.listeners:
            listener.close()
        self.connections.stop_reading()
        try:
            async with asyncio.timeout(patience):
                await self._wait_until_quiet()
        except TimeoutError:
            log.warning("%d connections still have requests in flight; closing them", len(self.connections))
        self.connections.close_all()
        self.dispatcher.cancel_tasks()
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._relief is not None:
            self._relief.cancel()
        self.warmer.close()
        tell_left_out()

    async def _wait_until_quiet(self) -> None:
        self.connections.close_quiet()
        while len(self.connections):
            await asyncio.sleep(0.01)
            self.connections.close_quiet()

    def use_limits(self, limits: Limits) -> None:
        """Take over limits that were changed while running; open connections keep their largest request."""
        self.limits = self.connections.limits = limits
        self.memory.resize(limits.queued_bytes, limits.queued_bytes_per_address)
        self._pace.per_second = limits.connections_per_second

    def forget(self, connection: Connection) -> None:
        self.connections.remove(connection)

    def _accepted(self, listener: Listener, accepted: socket.socket, peer: tuple[str, int]) -> None:
        refusal = self.connections.refusal(peer[0], listener.name)
        if refusal is not None:
            accepted.close()
            self.connections.refused[listener.name] += 1
            log.warning("%r refused %s:%d: %s", listener, *peer, refusal)
            return
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            local = plain_address(accepted.getsockname())
        except OSError:  # it has gone already; macOS says so here
            accepted.close()
            return
        listener.check_reachable(peer[0], local[0])
        self.connections.add(Connection(self, PlainTransport(accepted), listener, peer, local))

    def _sweep(self) -> None:
        """Look after timeouts, a few hundred connections at a time, so that nobody waits for thousands."""
        now = self.monotonic()
        self.connections.close_misplaced(now)
        complete = self.connections.close_overdue(now, SWEPT_AT_ONCE)
        self._sweeper = self.loop.call_later(SWEEP_SECONDS if complete else SWEEP_PAUSE, self._sweep)

    def _relieve_soon(self) -> None:
        if self._relief is None:
            self._relief = self.loop.call_soon(self._relieve)

    def _relieve(self) -> None:
        """While someone waits for memory, take it from those that hold it in vain."""
        self._relief = None
        self.connections.evict_slow(self.monotonic())
        if self.memory.waiting and self._relief is None:
            self._relief = self.loop.call_later(RELIEF_SECONDS, self._relieve)
