"""A named listening socket, its advertised address, and its accept rate."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import Any

from barnabas.common.safe_logging import rate_limited_logger
from barnabas.network.exposure import unreachable_reason
from barnabas.network.transport import PlainTransport, Wrap
from barnabas.security import RequestContext
from barnabas.security.authn.sasl import NOTHING_OFFERED, Offer

log = rate_limited_logger(__name__)

ACCEPTED_PER_TURN = 64
RETRY_ACCEPT_SECONDS = 0.5
BACKLOG = 1024

# Exhausted resources recover; any other error of accept() concerns one connection only.
_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
# Errors of a host without IPv6.
_WITHOUT_IPV6 = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})

UNTUNED = -1  # leave the socket buffer size to the system

IsBroker = Callable[[RequestContext], bool]
Accepted = Callable[["Listener", socket.socket, tuple[str, int]], None]

Pace = Callable[[], float]
"""Returns 0 when a connection may be accepted now, or the seconds to wait."""


def _at_once() -> float:
    return 0.0


class ConnectionRate:
    """Limits connections per second: a token bucket with a burst of one second.

    `limit` is the metric label: the broker's limit or that of one listener.
    """

    def __init__(self, per_second: float, monotonic: Callable[[], float], limit: str = "broker") -> None:
        self.per_second = per_second
        self.limit = limit
        self._now = monotonic
        self._left = max(per_second, 1.0)
        self._filled = monotonic()

    def delay(self) -> float:
        """Return 0 when a connection may be accepted now, or the seconds to wait."""
        now = self._now()
        self._left = min(self._left + (now - self._filled) * self.per_second, max(self.per_second, 1.0))
        self._filled = now
        if self._left < 1.0:
            return (1.0 - self._left) / self.per_second if self.per_second > 0 else 1.0
        return 0.0

    def take(self) -> None:
        """Count an accepted connection."""
        self._left -= 1.0


class Listener:
    """Accepts connections on one address. After `open`, `port` is the real one even if 0 was configured."""

    def __init__(
        self,
        name: str,
        host: str,
        port: int,
        *,
        advertised: tuple[str, int] | None = None,
        security_protocol: str = "PLAINTEXT",
        backlog: int = BACKLOG,
        receive_buffer: int = UNTUNED,
        send_buffer: int = UNTUNED,
        serves_brokers: bool = False,
        wrap: Wrap = PlainTransport,
        offer: Offer = NOTHING_OFFERED,
        pace: Pace = _at_once,
        requires_certificate: bool = False,
    ) -> None:
        self.name = name
        self.offer = offer  # SASL mechanisms
        self.is_broker: IsBroker = _any_principal
        self.wrap = wrap
        self.requires_certificate = requires_certificate  # from clients; without one they are disconnected
        self._pace = pace
        self.serves_brokers = serves_brokers  # accepts requests that only brokers may send (`BrokersOnly`)
        self.host = host
        self.port = port
        self.security_protocol = security_protocol
        self.advertised_address = advertised
        self._backlog = backlog
        self._buffers = {socket.SO_RCVBUF: receive_buffer, socket.SO_SNDBUF: send_buffer}
        self._has_warned = False
        self._socket: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._accepted: Accepted | None = None
        self._rates: Sequence[ConnectionRate] = ()
        self.throttled: Counter[str] = Counter()  # how often connections had to wait, by limit

    @property
    def authenticates(self) -> bool:
        """True if clients must authenticate first."""
        return self.security_protocol.startswith("SASL")

    def __repr__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"

    def open(self) -> None:
        """Bind and listen. Connections are accepted from `start` on; earlier ones wait in the kernel's queue."""
        try:
            self._socket = self._listen()
        except OSError as error:
            where = f"{self.host or '*'}:{self.port}"
            raise OSError(error.errno, f"cannot listen on {where}: {_reason(error, self.port)}") from error
        self.port = self._socket.getsockname()[1]

    def adopt(self, listening: socket.socket) -> None:
        """Accept from a socket that another process has opened, and keeps open."""
        self._socket = listening
        self.port = listening.getsockname()[1]

    def detach(self) -> socket.socket:
        """Return the socket after `open`, for `adopt`."""
        listening, self._socket = self._socket, None
        assert listening is not None
        return listening

    def _listen(self) -> socket.socket:
        family, host = _family_of(self.host)
        try:
            return self._listen_on(family, host)
        except OSError as error:
            if self.host or error.errno not in _WITHOUT_IPV6:
                raise
            return self._listen_on(socket.AF_INET, "0.0.0.0")

    def _listen_on(self, family: socket.AddressFamily, host: str) -> socket.socket:
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setblocking(False)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                # An empty host means every interface, IPv4 included; "::" does too, as in Java.
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            # Connections inherit the sizes. TCP negotiates its window in the handshake: later is too late.
            for option, size in self._buffers.items():
                if size > 0:
                    listening.setsockopt(socket.SOL_SOCKET, option, size)
            listening.bind((host, self.port))
            listening.listen(self._backlog)
        except OSError:
            listening.close()
            raise
        return listening

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    @property
    def is_loopback(self) -> bool:
        """Return whether it is open and unreachable for other hosts."""
        if self._socket is None:
            return False
        host, _ = plain_address(self._socket.getsockname())
        return ip_address(host.partition("%")[0]).is_loopback

    def start(
        self, loop: asyncio.AbstractEventLoop, accepted: Accepted, rates: Sequence[ConnectionRate] = ()
    ) -> None:
        if self._socket is None:
            self.open()
        self._loop, self._accepted, self._rates = loop, accepted, rates
        self._watch()

    def close(self) -> None:
        if self._socket is not None:
            if self._loop is not None:
                self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def advertised(self, connection: Any) -> tuple[str, int]:
        """Return the address to advertise to a client: as configured, or the one at which it reached this
        broker.
        """
        if self.advertised_address is not None:
            return self.advertised_address
        local: tuple[str, int] = connection.local_address
        return local

    def check_reachable(self, peer: str, local: str) -> None:
        """Warn once when a client that has just connected cannot reach the advertised address."""
        if self._has_warned or peer == local:
            return
        advertised = self.advertised_address[0] if self.advertised_address is not None else local
        reason = unreachable_reason(advertised, peer, is_set=self.advertised_address is not None)
        if reason is not None:
            self._has_warned = True
            log.warning(
                "%r: the address advertised to the client at %s is %s, %s. Set advertised.listeners=%s://HOST:PORT to "
                "the address that clients dial.",
                *(self, peer, advertised, reason, self.name),
            )

    def _watch(self) -> None:
        if self._socket is not None and self._loop is not None:
            self._loop.add_reader(self._socket.fileno(), self._accept)

    def _accept(self) -> None:
        assert self._socket is not None
        assert self._accepted is not None
        for _ in range(ACCEPTED_PER_TURN):
            if self._has_to_wait():
                return
            try:
                accepted, peer = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._accept_failed(error)
                return
            for rate in self._rates:
                rate.take()
            accepted.setblocking(False)
            self._accepted(self, accepted, plain_address(peer))

    def _has_to_wait(self) -> bool:
        """Delay accepting while the connection rate is exceeded; clients wait in the kernel's queue."""
        for rate in self._rates:
            if delay := rate.delay():
                self.throttled[rate.limit] += 1
                self._pause(delay)
                return True
        if delay := self._pace():
            self._pause(delay)
        return delay > 0

    def _accept_failed(self, error: OSError) -> None:
        if error.errno not in _OUT_OF_RESOURCES:
            return  # the client has disconnected already
        log.error("%r cannot accept: %s; retrying in %s s", self, error.strerror, RETRY_ACCEPT_SECONDS)
        self._pause(RETRY_ACCEPT_SECONDS)

    def _pause(self, seconds: float) -> None:
        """Stop accepting for a while; clients wait in the kernel's queue."""
        if self._socket is not None and self._loop is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._loop.call_later(seconds, self._watch)


def _any_principal(context: RequestContext) -> bool:
    return True


def _reason(error: OSError, port: int) -> str | None:
    if error.errno == errno.EADDRINUSE:
        return f"another process uses port {port} (`ss -ltnp sport = :{port}` shows it); choose another port"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this host does not have that address; 0.0.0.0 listens on all of its addresses"
    return error.strerror


def _family_of(host: str) -> tuple[socket.AddressFamily, str]:
    """Return family and address to listen on. A name may have addresses of both families: most clients try
    IPv4 anyway.
    """
    if not host or ":" in host:
        return socket.AF_INET6, host
    name = host.encode() if host.isascii() else host  # for a str Python loads its Unicode tables
    found = [(family, str(address[0])) for family, *_, address in socket.getaddrinfo(name, None)]
    return next((each for each in found if each[0] == socket.AF_INET), found[0])


def plain_address(address: tuple[Any, ...]) -> tuple[str, int]:
    """Return host and port; an IPv4 client of an IPv6 socket gets its IPv4 address."""
    host, port = address[0], address[1]
    return host.removeprefix("::ffff:") if "." in host else host, port
