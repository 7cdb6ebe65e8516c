"""All open connections of a server: limits on their number, and timeouts."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Protocol

from barnabas.network.connection import Connection
from barnabas.network.frames import STOPPING
from barnabas.network.limits import Limits
from barnabas.security.authn.sasl import SaslLogin

SILENT_BROKER_SECONDS = 5.0  # a broker sends a request as soon as it connects
EVICTED = (
    "other requests wait for memory held by an incomplete request "
    "(barnabas.request.min.bytes.per.second; raise queued.max.request.bytes if clients really are that slow)"
)


class BrokerHosts(Protocol):
    """The other brokers of the cluster: their number, and a check by address."""

    def __len__(self) -> int: ...
    def __contains__(self, address: str) -> bool: ...


class Connections:
    """Open connections by listener and address, with the limits on them.

    Clients cannot lock brokers out. A listener dedicated to brokers (`brokers_listener`) is counted
    separately. On every listener a few slots are reserved for the addresses of registered brokers: they are
    used when no other slot is free, and only by connections that turn out to be a broker's.
    """

    def __init__(
        self, limits: Limits, brokers: BrokerHosts = frozenset(), brokers_listener: str | None = None
    ) -> None:
        self.limits = limits
        self._brokers = brokers
        self._brokers_listener = brokers_listener
        self._open: set[Connection] = set()
        self._by_address: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        self._in_reserved_slots: set[Connection] = set()
        self._unchecked: list[Connection] = []  # by the current run of close_overdue
        # Since the start, by name of the listener.
        self.opened: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.closed: Counter[str] = Counter()  # closed because of a timeout or for memory, by reason

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Connection]:
        return iter(tuple(self._open))

    def count_on(self, listener_name: str) -> int:
        return self._by_listener[listener_name]

    def refusal(self, address: str, listener_name: str) -> str | None:
        """Return why a connection from this address exceeds a limit, or None."""
        reason = self._limit_reached(address, listener_name)
        return None if reason is not None and self._has_reserved_slot(address) else reason

    def _limit_reached(self, address: str, listener_name: str) -> str | None:
        limits = self.limits
        own_limit = limits.listener_connections.get(listener_name)
        if own_limit is not None and self._by_listener[listener_name] >= own_limit:
            return f"listener.name.{listener_name.lower()}.max.connections={own_limit} are open"
        if self._is_full(listener_name):
            return f"max.connections={limits.connections} are open, or kept for brokers"
        if self._by_address[address] >= limits.connections_from(address):
            return f"max.connections.per.ip={limits.connections_from(address)} are open from {address}"
        return None

    def _is_full(self, listener_name: str) -> bool:
        limits = self.limits
        kept = min(len(self._brokers) * limits.connections_per_broker, limits.connections // 2)
        if len(self._open) >= limits.descriptors - kept:
            return True
        if self._brokers_listener is None:
            return len(self._open) >= limits.connections - kept
        of_brokers = self._by_listener[self._brokers_listener]
        counted = of_brokers if listener_name == self._brokers_listener else len(self._open) - of_brokers
        return counted >= limits.connections

    def _has_reserved_slot(self, address: str) -> bool:
        taken = sum(each.peer[0] == address for each in self._in_reserved_slots)
        return taken < self.limits.connections_per_broker and address in self._brokers

    def add(self, connection: Connection) -> None:
        address, name = connection.peer[0], connection.listener.name
        if self._limit_reached(address, name) is not None:
            self._in_reserved_slots.add(connection)
        self._open.add(connection)
        self._by_address[address] += 1
        self._by_listener[name] += 1
        self.opened[name] += 1

    def remove(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._in_reserved_slots.discard(connection)
        self._by_listener[connection.listener.name] -= 1
        address = connection.peer[0]
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def close_reserved_clients(self, now: float) -> None:
        """Close clients that run on a broker's host and use a slot reserved for that broker."""
        for connection in tuple(self._in_reserved_slots):
            # Where brokers share a listener with clients, the client id distinguishes them.
            if not connection.context.is_peer and (
                connection.requests or now > connection.opened + SILENT_BROKER_SECONDS
            ):
                self.closed["kept for brokers"] += 1
                connection.close("the last slots are reserved for brokers (max.connections)", logging.WARNING)

    def close_overdue(self, now: float, at_most: int | None = None) -> bool:
        """Close connections that are idle, never sent a request, or send one too slowly.

        Checks at most `at_most` connections and continues there on the next call; returns True when all were
        checked.
        """
        if not self._unchecked:
            self._unchecked = list(self._open)
        remaining = 0 if at_most is None else max(len(self._unchecked) - at_most, 0)
        for connection in self._unchecked[remaining:]:
            if connection.closed:
                continue
            if overdue := _overdue(connection, self.limits, now):
                self.closed[overdue[0]] += 1
                connection.close(overdue[1], logging.INFO)
            elif reason := _unanswered(connection, self.limits, now):
                self.closed["unanswered"] += 1
                connection.close(reason, logging.ERROR)
        del self._unchecked[remaining:]
        return not self._unchecked

    def evict_slow(self, now: float) -> None:
        """Close connections that hold memory without progress, slowest first, until no request waits for
        memory.
        """
        slow = [connection for connection in self._open if connection.holds_wanted_memory(now)]
        for connection in sorted(slow, key=lambda each: each.lateness(now), reverse=True):
            if connection.holds_wanted_memory(now):  # checked again: closing earlier ones may have sufficed
                self.closed["evicted"] += 1
                connection.close(EVICTED, logging.WARNING)

    def close_senders_of(self, folders: Collection[str]) -> None:
        """Close connections that have yet to send slices of truncated logs: the bytes there will change."""
        for connection in self:
            if connection.may_send_from(folders):
                self.closed["truncated"] += 1
                connection.close("records in its pending response were truncated", logging.INFO)

    def close_sessions(self, has_ended: Callable[[SaslLogin], bool]) -> None:
        """Close connections that authenticated with a revoked credential. Brokers stay connected: they would
        reconnect with the credential in their settings.
        """
        for connection in self:
            login = connection.login
            if login is None or (login.is_done and connection.context.is_privileged) or not has_ended(login):
                continue
            self.closed["credential"] += 1
            connection.close("its credential was changed or deleted", logging.INFO)

    def stop_reading(self) -> None:
        """Read no more requests; those in flight are still answered."""
        for connection in self:
            connection.pause(STOPPING)

    def close_quiet(self) -> None:
        """Close connections that have nothing in flight."""
        for connection in self:
            if connection.is_quiet:
                connection.close("the broker stops")

    def close_all(self) -> None:
        for connection in self:
            connection.close("the broker stops", logging.INFO)


def _unanswered(connection: Connection, limits: Limits, now: float) -> str | None:
    """Describe a request that should have been answered long ago: a bug in the broker."""
    if not connection.unanswered or connection.output:
        return None
    oldest = connection.unanswered[0]
    allowed = max(oldest.client_wait, oldest.time_budget) + limits.answer_seconds
    if oldest.answer is not None or now <= oldest.received + allowed:
        return None
    return f"{oldest.label} was not answered for {now - oldest.received:.0f} s"


def _overdue(connection: Connection, limits: Limits, now: float) -> tuple[str, str] | None:
    """Return why a connection has timed out, or None: the metric label, and a sentence."""
    if connection.lateness(now) > limits.frame_seconds:
        rate = limits.frame_bytes_per_second
        return (
            "slow request",
            f"a request arrives at less than {rate} bytes/s (barnabas.request.min.bytes.per.second)",
        )
    if not connection.requests and now > connection.opened + limits.first_request_seconds:
        text = f"no request within {limits.first_request_seconds:g} s (barnabas.first.request.timeout.ms)"
        return "no request", text
    login = connection.login
    if (
        login is not None
        and login.principal is None
        and now > connection.opened + limits.first_request_seconds
    ):
        text = (
            f"not authenticated within {limits.first_request_seconds:g} s (barnabas.first.request.timeout.ms)"
        )
        return "not authenticated", text
    # A connection that waits for a response is not idle; one that does not read its response is.
    if now > connection.last_active + limits.idle_seconds and (
        connection.output or not connection.unanswered
    ):
        return "idle", f"idle for more than {limits.idle_seconds:g} s (connections.max.idle.ms)"
    return None
