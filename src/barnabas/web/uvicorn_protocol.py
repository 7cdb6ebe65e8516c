"""uvicorn's connection with limits on time and on the number of connections.

Each connection is in one phase, and each phase has a limit (`WebLimits`):

    HEAD      the head of a request is incomplete, or the first one has not begun    head_seconds
    BODY      the body is incomplete                                                 body_seconds, body_rate
    RESPONSE  the application works, or the client reads the response                answer_seconds without progress
    IDLE      the response is complete, the next request has not begun               KEEP_ALIVE, if the server has room

One client may have `incomplete_per_address` connections in HEAD and BODY. A full server closes the connection that has
been in IDLE longest to accept a new one. With TLS, a connection is in HEAD during its handshake.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable
from enum import Enum, auto
from ipaddress import IPv6Address, ip_address, ip_network
from typing import cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from barnabas.common.safe_logging import rate_limited_logger
from barnabas.web.server import PEER_CERTIFICATE, WebLimits

HANDSHAKE_SECONDS = 10.0
READ_BYTES = 8 * 1024
"""Per read. asyncio reads 256 KiB: 40,000 chunks of one byte, for which h11 takes 0.2 s instead of 8 ms."""

_TIMEOUT_TEXT = (
    b"timeout: the request was incomplete; send it again over a faster connection, or in smaller parts\n"
)
_TIMEOUT_RESPONSE = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_TIMEOUT_TEXT), _TIMEOUT_TEXT)
)

log = rate_limited_logger(__name__)


class Phase(Enum):
    HEAD = auto()
    BODY = auto()
    RESPONSE = auto()
    IDLE = auto()

    @property
    def is_incomplete(self) -> bool:
        return self in (Phase.HEAD, Phase.BODY)


class ConnectionTracker:
    """Connections of one server: incomplete requests by client, and idle connections, which may be closed."""

    def __init__(self, limits: WebLimits) -> None:
        self.limits = limits
        self.handshakes = 0
        self.idle: dict[BoundedProtocol, None] = {}
        """The longest idle connection first."""
        self._incomplete: Counter[str] = Counter()

    def make_room(self, open_connections: int) -> bool:
        """True if a new connection can be served; closes an idle one if the server is full."""
        if open_connections + self.handshakes < self.limits.connections:
            return True
        if not self.idle:
            return False
        oldest = next(iter(self.idle))
        del self.idle[oldest]
        oldest.transport.abort()
        return True

    def begin(self, client: str) -> bool:
        """Count an incomplete request; False beyond the limit. Call `end` for each `begin`."""
        self._incomplete[client] += 1
        is_within = not client or self._incomplete[client] <= self.limits.incomplete_limit
        if not is_within:
            log.warning(
                "%s has %d connections with incomplete requests; new ones are closed. If it is a proxy, add it to the "
                "trusted proxies",
                *(client, self.limits.incomplete_limit),
            )
        return is_within

    def end(self, client: str) -> None:
        self._incomplete[client] -= 1
        if not self._incomplete[client]:
            del self._incomplete[client]

    def client_of(self, transport: asyncio.BaseTransport) -> str:
        """Address that limits apply to; empty for a trusted proxy. An IPv6 host usually has a whole /64."""
        peer = transport.get_extra_info("peername")
        if not peer:
            return ""
        address = ip_address(peer[0].partition("%")[0])
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        if any(address in network for network in self.limits.trusted_proxies):
            return ""
        return str(ip_network((address, 64), strict=False) if address.version == 6 else address)


class BoundedProtocol(H11Protocol):
    tracker: ConnectionTracker
    _client = ""
    _phase: Phase | None = None
    _since = 0.0
    _received = 0
    _timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._client = self.tracker.client_of(transport)
        has_room = self.tracker.make_room(len(self.connections))
        transport.max_size = READ_BYTES  # type: ignore[attr-defined]  # asyncio's transports without TLS have it
        super().connection_made(transport)
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        if tls is not None and (certificate := tls.getpeercert(binary_form=True)):
            self.app_state = {**self.app_state, PEER_CERTIFICATE: certificate}
        if not has_room:
            transport.abort()
        self._advance()

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)
        self._advance()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._advance()

    def connection_lost(self, exc: Exception | None) -> None:
        self._enter(None)
        self._cancel(self._write_timer)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.tracker.limits.answer_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel(self._write_timer)

    def timeout_keep_alive_handler(self) -> None:
        """`close` would wait indefinitely for a client that does not read."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            super().timeout_keep_alive_handler()

    def _advance(self) -> None:
        phase = self._current_phase()
        if phase is self._phase:
            return
        self._enter(phase)
        if phase.is_incomplete:
            self._since, self._received = self.loop.time(), 0
            self._set_timer()

    def _current_phase(self) -> Phase:
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            return Phase.BODY
        if state is h11.IDLE and (self.cycle is None or self.conn.trailing_data[0]):
            return Phase.HEAD
        is_answered = self.cycle is not None and self.cycle.response_complete
        return Phase.IDLE if is_answered else Phase.RESPONSE

    def _enter(self, phase: Phase | None) -> None:
        """Change the phase and the counts of the server; None: the connection is closed."""
        previous, self._phase = self._phase, phase
        self._cancel(self._timer)
        self.tracker.idle.pop(self, None)
        if phase is Phase.IDLE:
            self.tracker.idle[self] = None
        was_incomplete = previous is not None and previous.is_incomplete
        is_incomplete = phase is not None and phase.is_incomplete
        if was_incomplete and not is_incomplete:
            self.tracker.end(self._client)
        elif is_incomplete and not was_incomplete and not self.tracker.begin(self._client):
            self.transport.abort()

    def _set_timer(self) -> None:
        self._timer = self.loop.call_at(self._deadline(), self._check_deadline)

    def _deadline(self) -> float:
        limits = self.tracker.limits
        if self._phase is Phase.HEAD:
            return self._since + limits.head_seconds
        by_rate = limits.body_grace + self._received / limits.body_rate
        return self._since + min(limits.body_seconds, by_rate)

    def _check_deadline(self) -> None:
        if self.flow.read_paused:  # the application is slow, not the client
            self._since, self._received = self.loop.time(), 0
        if self.loop.time() >= self._deadline():
            self._time_out()
        else:
            self._set_timer()

    def _time_out(self) -> None:
        """Send 408 if a part of a request was received and has no response yet."""
        cycle, is_silent = self.cycle, self._phase is Phase.HEAD and not self._received
        if is_silent or (cycle is not None and cycle.response_started and not cycle.response_complete):
            self.transport.abort()
            return
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True  # drop the application's response
            cycle.message_event.set()
        if self._phase is Phase.HEAD or cycle.disconnected:
            self.transport.write(_TIMEOUT_RESPONSE)
        self.transport.close()

    @staticmethod
    def _cancel(timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()


class Handshake(asyncio.Protocol):
    """TLS handshake; then passes the connection and the data received meanwhile to `protocol`."""

    def __init__(self, protocol: BoundedProtocol, tls: ssl.SSLContext) -> None:
        self._protocol = protocol
        self._tracker = protocol.tracker
        self._tls = tls
        self._client = ""
        self._is_counted = False
        self._received: list[bytes] = []
        self._is_lost = False
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)
        has_room = self._tracker.make_room(len(self._protocol.connections))
        self._client = self._tracker.client_of(stream)
        self._tracker.handshakes += 1
        self._is_counted = True
        if not self._tracker.begin(self._client) or not has_room:
            stream.abort()
            return
        stream.pause_reading()  # the first bytes are for the handshake
        self._task = asyncio.get_running_loop().create_task(self._handshake(stream))

    async def _handshake(self, stream: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(
                stream, self, self._tls, server_side=True, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
        except (OSError, TimeoutError):  # SSLError is an OSError
            stream.abort()
            return
        finally:
            self._uncount()
        if secured is not None and not self._is_lost:
            secured.set_protocol(self._protocol)
            self._protocol.connection_made(secured)
            for data in self._received:
                self._protocol.data_received(data)

    def data_received(self, data: bytes) -> None:
        self._received.append(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._is_lost = True
        self._uncount()

    def _uncount(self) -> None:
        if self._is_counted:
            self._is_counted = False
            self._tracker.handshakes -= 1
            self._tracker.end(self._client)


def protocol_factory(limits: WebLimits, tls: ssl.SSLContext | None = None) -> Callable[..., asyncio.Protocol]:
    """Factory of one server's connections."""
    bounded: type[BoundedProtocol] = type(
        "BoundedProtocol", (BoundedProtocol,), {"tracker": ConnectionTracker(limits)}
    )
    if tls is None:
        return bounded
    return lambda **settings: Handshake(bounded(**settings), tls)
