"""Network side of a broker: listeners, connections, and their shared state."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterable, Mapping

from barnabas.common.safe_logging import log_suppressed, rate_limited_logger
from barnabas.network.connection import Connection
from barnabas.network.connections import BrokerHosts, Connections
from barnabas.network.exposure import warn_if_exposed, warn_if_unreachable
from barnabas.network.limits import RECEIVE_BUFFER_BYTES, UNLIMITED, Limits
from barnabas.network.listener import ConnectionRate, Listener, plain_address
from barnabas.network.memory_pool import MemoryPool
from barnabas.network.page_residency import Warmer
from barnabas.network.requests import Dispatcher
from barnabas.network.tls_listeners import TlsListeners
from barnabas.network.transport import PlainTransport
from barnabas.security.quotas import AddressQuotas, Windows
from barnabas.security.quotas.filters import QuotaEntity

log = rate_limited_logger(__name__)

PROCESSES_LISTENER = "(processes)"
"""Of connections between the processes of a node. No configured listener has a name like this."""
_NO_ADDRESS = ("", 0)
SWEEP_SECONDS = 1.0
SWEEP_PAUSE = 0.02
SWEPT_AT_ONCE = 250
RELIEF_SECONDS = 0.25
MAX_KEPT_AWAY = 256  # sockets; beyond this, excess connections are closed at once
SILENT_SECONDS = 0.1
"""Clients of a moved partition retry within their backoff (100 ms), if they retry."""


class SocketServer:
    """Runs from `start` to `stop`, on the loop that called `start`."""

    def __init__(
        self,
        listeners: Iterable[Listener],
        dispatcher: Dispatcher,
        limits: Limits | None = None,
        *,
        brokers: BrokerHosts = frozenset(),
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
        self._for_processes = Listener(PROCESSES_LISTENER, "", 0, serves_brokers=True)
        self._sweeper: asyncio.TimerHandle | None = None
        self._relief: asyncio.Handle | None = None
        self._truncated: set[str] = set()  # folders of logs

    def open(self) -> None:
        """Bind all addresses, so that ports are known; clients are accepted from `start` on."""
        for listener in self.listeners:
            if not listener.is_open:
                listener.open()

    def close(self) -> None:
        """Release the addresses of a server that was not started."""
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
        """The broker's rate applies to clients; a dedicated inter-broker listener has only its own."""
        own = self._own_rates[listener.name]
        return (own,) if listener.name == self._brokers_listener else (self._rate, own)

    def _own_limit(self, listener: Listener) -> float:
        return self.limits.listener_connections_per_second.get(listener.name, UNLIMITED)

    async def turn_away(self, timeout_seconds: float) -> None:
        """Stop accepting, and answer until no request arrives for SILENT_SECONDS, or `timeout_seconds` are over.

        For a broker whose partitions have moved to other leaders: its responses make clients refresh their
        metadata on the same connection. A connection that is closed with a request on its way is reset, and
        the client waits for its timers.
        """
        self._close_listeners()
        began = self.monotonic()
        while len(self.connections):
            last = max(began, *(connection.received for connection in self.connections))
            if self.monotonic() >= min(last + SILENT_SECONDS, began + timeout_seconds):
                break
            await asyncio.sleep(SILENT_SECONDS / 5)

    async def stop(self, timeout_seconds: float = 10.0) -> None:
        """Stop accepting and reading, complete the requests in flight, then close everything."""
        self._close_listeners()
        self.connections.stop_reading()
        try:
            async with asyncio.timeout(timeout_seconds):
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
        log_suppressed()

    async def _wait_until_quiet(self) -> None:
        self.connections.close_quiet()
        while len(self.connections):
            await asyncio.sleep(0.01)
            self.connections.close_quiet()

    def use_limits(self, limits: Limits) -> None:
        """Apply limits that were changed at runtime; open connections keep their request size limit."""
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
        """Close connections that have yet to send slices of a log that is about to be truncated.

        This happens in the next loop iteration, once for all logs truncated in this one. A follower appends
        later: it has to fetch from its leader again. In between a slice beyond the truncation ends early,
        which closes its connection too. Data already passed to the kernel cannot be recalled: sendfile shares
        the page of the truncation with the file, as in Kafka.
        """
        if len(self.connections):
            if not self._truncated:
                self.loop.call_soon(self._close_senders_of_truncated)
            self._truncated.add(folder)

    def _close_senders_of_truncated(self) -> None:
        folders, self._truncated = self._truncated, set()
        self.connections.close_senders_of(folders)

    def _keep_away(self, accepted: socket.socket, seconds: float) -> None:
        """Close a connection after a delay: its client would reconnect at once (KIP-612)."""
        if len(self._kept_away) >= MAX_KEPT_AWAY:
            accepted.close()
            return
        self._kept_away.add(accepted)
        self.loop.call_later(seconds, self._let_go, accepted)

    def _let_go(self, accepted: socket.socket) -> None:
        self._kept_away.discard(accepted)
        accepted.close()

    def _accepted(self, listener: Listener, accepted: socket.socket, peer: tuple[str, int]) -> None:
        # Also on the inter-broker listener, as in Kafka: only the rate of the whole broker exempts it.
        if delay := self._address_quotas.delay(peer[0]):
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
        except OSError:  # disconnected already; macOS reports it here
            accepted.close()
            return
        listener.check_reachable(peer[0], local[0])
        self.connections.add(Connection(self, listener.wrap(accepted, self.loop), listener, peer, local))

    def serve_process(self, connected: socket.socket) -> None:
        """Serve another process of this node, over a connected socket."""
        connected.setblocking(False)
        transport = PlainTransport(connected, self.loop)
        self.connections.add(Connection(self, transport, self._for_processes, _NO_ADDRESS, _NO_ADDRESS))

    def _sweep(self) -> None:
        """Check timeouts, a few hundred connections at a time: thousands would block the loop for too long."""
        now = self.monotonic()
        self.connections.close_reserved_clients(now)
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
