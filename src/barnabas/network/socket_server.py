"""The network side of a broker: listeners, connections, and what the connections share."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterable, Mapping

from barnabas.common.safe_logging import rate_limited_logger, tell_left_out
from barnabas.network.connection import Connection
from barnabas.network.connections import Brokers, Connections
from barnabas.network.exposure import warn_if_exposed
from barnabas.network.limits import RECEIVE_BUFFER_BYTES, UNLIMITED, Limits
from barnabas.network.listener import ConnectionRate, Listener, plain_address
from barnabas.network.memory_pool import MemoryPool
from barnabas.network.page_residency import Warmer
from barnabas.network.reachability import warn_if_unreachable
from barnabas.network.requests.dispatch import Dispatcher
from barnabas.network.tls_listeners import TlsListeners
from barnabas.security.quotas.filters import QuotaEntity
from barnabas.security.quotas.address_quotas import AddressQuotas
from barnabas.security.quotas.rates import Windows

log = rate_limited_logger(__name__)

SWEEP_SECONDS = 1.0
SWEEP_PAUSE = 0.02
SWEPT_AT_ONCE = 250
RELIEF_SECONDS = 0.25
MOST_KEPT_AWAY = 256  # sockets; others that are too many are closed at once
SILENT_SECONDS = 0.1
"""Clients that were told that another broker leads come back within their backoff (100 ms), if they come back."""


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
        tls: TlsListeners | None = None,
        address_quotas: AddressQuotas | None = None,
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
        self.tls = tls or TlsListeners()
        self._rate = ConnectionRate(self.limits.connections_per_second, monotonic)
        self._own_rates = {
            listener.name: ConnectionRate(self._own_limit(listener), monotonic, "listener")
            for listener in self.listeners
        }
        self._address_quotas = address_quotas or AddressQuotas(Windows(), monotonic)
        self._kept_away: set[socket.socket] = set()
        self.receive_buffer = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
        self.loop: asyncio.AbstractEventLoop
        self._sweeper: asyncio.TimerHandle | None = None
        self._relief: asyncio.Handle | None = None
        self._truncated: set[str] = set()  # folders of logs

    def open(self) -> None:
        """Bind all addresses, so that ports are known; clients are accepted from `start` on."""
        for listener in self.listeners:
            listener.open()

    def close(self) -> None:
        """Release the addresses without having served a request."""
        self._close_listeners()
        self.warmer.close()
        self.tls.close()

    def _close_listeners(self) -> None:
        for listener in self.listeners:
            listener.close()

    async def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        for listener in self.listeners:
            listener.start(self.loop, self._accepted, self._rates_of(listener))
            warn_if_unreachable(listener)
        warn_if_exposed(self.listeners)
        self._sweep()

    def _rates_of(self, listener: Listener) -> tuple[ConnectionRate, ...]:
        """The rate of the broker holds for clients; brokers on a listener of their own have none but that one's."""
        own = self._own_rates[listener.name]
        return (own,) if listener.name == self._brokers_listener else (self._rate, own)

    def _own_limit(self, listener: Listener) -> float:
        return self.limits.listener_connections_per_second.get(listener.name, UNLIMITED)

    async def turn_away(self, patience: float) -> None:
        """Accept no more, and go on answering until nobody has asked for SILENT_SECONDS, or `patience` is over.

        For a broker whose partitions others lead by now: its answers tell clients so, and they ask where to go on the
        same connection. One that is closed with a request on its way is reset, and the client looks for others by its
        timers.
        """
        self._close_listeners()
        began = self.monotonic()
        while len(self.connections):
            last = max(began, *(connection.received for connection in self.connections))
            if self.monotonic() >= min(last + SILENT_SECONDS, began + patience):
                break
            await asyncio.sleep(SILENT_SECONDS / 5)

    async def stop(self, patience: float = 10.0) -> None:
        """Accept and read no more, let what is in flight be answered, then close everything."""
        self._close_listeners()
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
        for held in tuple(self._kept_away):
            self._let_go(held)
        self.warmer.close()
        self.tls.close()
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
        self._rate.per_second = limits.connections_per_second
        for listener in self.listeners:
            self._own_rates[listener.name].per_second = self._own_limit(listener)

    def use_address_quotas(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        self._address_quotas.update(quotas)

    def forget(self, connection: Connection) -> None:
        self.connections.remove(connection)

    def log_truncated(self, folder: str) -> None:
        """A log is about to be cut: close connections that have yet to send slices of it, before it grows again.

        That is in the next turn of the loop, once for all logs that are cut in this one. A follower appends later: it
        has to ask its leader again. In between a slice beyond the cut ends early, which closes its connection too.
        What the kernel has taken is out of reach: sendfile shares the page of the cut with the file, as in Kafka.
        """
        if len(self.connections):
            if not self._truncated:
                self.loop.call_soon(self._close_senders_of_truncated)
            self._truncated.add(folder)

    def _close_senders_of_truncated(self) -> None:
        folders, self._truncated = self._truncated, set()
        self.connections.close_senders_of(folders)

    def _keep_away(self, accepted: socket.socket, seconds: float) -> None:
        """Close a connection after a while: its client would come back at once (KIP-612)."""
        if len(self._kept_away) >= MOST_KEPT_AWAY:
            accepted.close()
            return
        self._kept_away.add(accepted)
        self.loop.call_later(seconds, self._let_go, accepted)

    def _let_go(self, accepted: socket.socket) -> None:
        self._kept_away.discard(accepted)
        accepted.close()

    def _accepted(self, listener: Listener, accepted: socket.socket, peer: tuple[str, int]) -> None:
        if listener.name != self._brokers_listener and (delay := self._address_quotas.delay(peer[0])):
            listener.throttled["ip"] += 1
            self._keep_away(accepted, delay)
            return
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
        self.connections.add(Connection(self, listener.wrap(accepted, self.loop), listener, peer, local))

    def _sweep(self) -> None:
        """Check timeouts, a few hundred connections at a time: thousands would hold the loop for too long."""
        now = self.monotonic()
        self.connections.close_clients_in_reserved_places(now)
        complete = self.connections.close_overdue(now, SWEPT_AT_ONCE)
        self._sweeper = self.loop.call_later(SWEEP_SECONDS if complete else SWEEP_PAUSE, self._sweep)

    def _relieve_soon(self) -> None:
        if self._relief is None:
            self._relief = self.loop.call_soon(self._relieve)

    def _relieve(self) -> None:
        """While a request waits for memory, close connections that hold it without progress."""
        self._relief = None
        self.connections.evict_slow(self.monotonic())
        if self.memory.waiting and self._relief is None:
            self._relief = self.loop.call_later(RELIEF_SECONDS, self._relieve)
