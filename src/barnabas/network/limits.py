"""Limits on the requests and connections of clients.

Every limit is on by default. Kafka leaves most of them unlimited; a single process that serves all clients
from one loop cannot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from barnabas.common import regex as patterns
from barnabas.common import safe_logging as log_lines
from barnabas.common.descriptors import room_for_connections
from barnabas.config.broker import BrokerConfig

MEBIBYTE = 1 << 20
UNLIMITED = 1 << 62

# Sizes that need no tuning: they bound one loop iteration and the backlog of one connection.
RECEIVE_BUFFER_BYTES: Final = MEBIBYTE
REQUESTS_PER_TURN: Final = 64
SENT_BYTES_PER_TURN: Final = MEBIBYTE
UNANSWERED_REQUESTS: Final = 64
QUEUED_OUTPUT_BYTES: Final = MEBIBYTE


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one server, with the setting that each comes from."""

    request_bytes: int = 100 * MEBIBYTE  # socket.request.max.bytes
    unauthenticated_bytes: int = 512 * 1024  # sasl.server.max.receive.size
    queued_bytes: int = 256 * MEBIBYTE  # queued.max.request.bytes
    queued_bytes_per_address: int = 128 * MEBIBYTE  # barnabas.queued.max.request.bytes.per.ip
    connections: int = 10_000  # max.connections
    listener_connections: Mapping[str, int] = field(default_factory=dict)  # listener.name.*.max.connections
    connections_per_address: int = 10_000  # max.connections.per.ip
    address_overrides: Mapping[str, int] = field(default_factory=dict)  # max.connections.per.ip.overrides
    connections_per_broker: int = 8  # barnabas.connections.kept.per.broker
    descriptors: int = UNLIMITED  # descriptors left for connections
    connections_per_second: float = UNLIMITED  # max.connection.creation.rate
    # listener.name.*.max.connection.creation.rate
    listener_connections_per_second: Mapping[str, int] = field(default_factory=dict)
    idle_seconds: float = 600.0  # connections.max.idle.ms
    first_request_seconds: float = 30.0  # barnabas.first.request.timeout.ms
    # A request that has begun must keep arriving at this rate, and may lag by this many seconds: enough for a
    # slow network, too little for a client that occupies memory by sending one byte now and then.
    frame_bytes_per_second: int = 64 * 1024  # barnabas.request.min.bytes.per.second
    frame_seconds: float = 30.0  # barnabas.request.late.ms
    short_frame_seconds: float = 2.0  # barnabas.request.late.short.memory.ms
    # Handlers bound their own waits, none by more than this beyond the client's timeout. If one fails to, the
    # client is disconnected, reconnects and is served, instead of waiting indefinitely.
    answer_seconds: float = 60.0

    def longest_request(self, *, is_authenticated: bool) -> tuple[int, str]:
        """Return the maximum request size and its setting. It is lower before authentication."""
        if is_authenticated or self.unauthenticated_bytes >= self.request_bytes:
            return self.request_bytes, "socket.request.max.bytes"
        return self.unauthenticated_bytes, "sasl.server.max.receive.size, until it has authenticated"

    def connections_from(self, address: str) -> int:
        """Return the connection limit of one address."""
        return self.address_overrides.get(address, self.connections_per_address)


def limits_from(config: BrokerConfig) -> Limits:
    """Return the limits from a broker's settings."""
    idle_ms: int = config["connections.max.idle.ms"]
    queued_bytes: int = config["queued.max.request.bytes"]
    if queued_bytes <= 0:
        queued_bytes = UNLIMITED
    share: int = config["barnabas.queued.max.request.bytes.per.ip"]
    return Limits(
        request_bytes=config["socket.request.max.bytes"],
        unauthenticated_bytes=config["sasl.server.max.receive.size"],
        queued_bytes=queued_bytes,
        queued_bytes_per_address=share if share > 0 else queued_bytes // 2,
        frame_bytes_per_second=config["barnabas.request.min.bytes.per.second"],
        frame_seconds=config["barnabas.request.late.ms"] / 1000,
        short_frame_seconds=config["barnabas.request.late.short.memory.ms"] / 1000,
        connections=min(config["max.connections"], room_for_connections()),
        connections_per_broker=config["barnabas.connections.kept.per.broker"],
        descriptors=room_for_connections(),
        listener_connections=_own_limits(config, "max.connections"),
        listener_connections_per_second=_own_limits(config, "max.connection.creation.rate"),
        connections_per_address=config["max.connections.per.ip"],
        address_overrides=_overrides(config["max.connections.per.ip.overrides"]),
        connections_per_second=config["max.connection.creation.rate"],
        idle_seconds=idle_ms / 1000 if idle_ms >= 0 else float("inf"),
        first_request_seconds=config["barnabas.first.request.timeout.ms"] / 1000,
    )


def _own_limits(config: BrokerConfig, setting: str) -> dict[str, int]:
    """Return the limits of single listeners, by name."""
    names = [spec.name for spec in config.listeners]
    limits = {name: config.get(f"listener.name.{name.lower()}.{setting}") for name in names}
    return {name: limit for name, limit in limits.items() if limit is not None}


def _overrides(text: str) -> dict[str, int]:
    """Read `HOST:LIMIT,HOST:LIMIT`; a host may be an IPv6 address."""
    pairs = (item.strip().rpartition(":") for item in text.split(",") if item.strip())
    return {host.strip("[]"): int(limit) for host, _, limit in pairs}


def use_process_limits(config: BrokerConfig) -> None:
    """Apply the limits on log lines and regular expressions, for all brokers in the process."""
    log_lines.use_limits(config["barnabas.log.lines.max"], config["barnabas.log.line.max.characters"])
    patterns.limits.use(
        characters=config["barnabas.regex.max.characters"],
        memory=config["barnabas.regex.max.bytes"],
        instructions=config["barnabas.regex.max.instructions"],
    )
