"""UDP, TCP and TLS listeners that fill one inbox."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import time
from collections.abc import Callable
from typing import cast

from barnabas.client import Address
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.security.tls import context_of_files
from barnabas.services.ingest.sockets.endpoints import ListenSettings, SocketEndpoint, endpoints_of
from barnabas.services.ingest.sockets.framing import BETWEEN, Frame, StreamDecoder
from barnabas.services.ingest.sockets.inbox import Inbox

# -- UDP: one message per datagram. Reads many datagrams per event loop callback ------------------------

MAX_READS = 200
MAX_DATAGRAM = 64 * 1024
KERNEL_BUFFER = 8 * 1024 * 1024
"""Requested receive buffer; the kernel caps it at net.core.rmem_max."""
_SO_RXQ_OVFL = 40  # Linux: each datagram carries the number of datagrams dropped before it
_NUMBER = struct.Struct("=I")


def bind(address: Address, kind: socket.SocketKind) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    bound = socket.socket(family, kind)
    try:
        if kind == socket.SOCK_STREAM:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(tuple(address))
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        raise OSError(error.errno, error.strerror, str(address)) from None
    return bound


class DatagramSocket:
    def __init__(self, bound: socket.socket, inbox: Inbox, longest: int) -> None:
        self._socket = bound
        self._inbox = inbox
        self._longest = longest
        self._dropped = 0
        _ask_for_drops(bound)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, KERNEL_BUFFER)

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def resume(self) -> None:
        asyncio.get_running_loop().add_reader(self._socket, self._read_some)

    def pause(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self.pause()
            self._socket.close()

    def read_all(self) -> None:
        while self._read_some() and not self._inbox.is_full:
            pass

    def _read_some(self) -> bool:
        """Read up to MAX_READS datagrams; return True if more may be available."""
        now = int(time.time() * 1000)
        for _ in range(MAX_READS):
            try:
                data, extra, _, sender = self._socket.recvmsg(MAX_DATAGRAM, 64)
            except OSError:  # no more datagrams, or an irrelevant ICMP error
                return False
            if extra:
                self._count_drops(extra)
            if message := data.rstrip(BETWEEN):
                frame = Frame(message[: self._longest], len(message) <= self._longest)
                self._inbox.put(str(sender[0]), [frame], now)
            if self._inbox.is_full:
                break
        return True

    def _count_drops(self, extra: list[tuple[int, int, bytes]]) -> None:
        for level, kind, value in extra:
            if (level, kind) == (socket.SOL_SOCKET, _SO_RXQ_OVFL):
                (dropped,) = _NUMBER.unpack(value[: _NUMBER.size])
                self._inbox.counts.dropped += (dropped - self._dropped) & 0xFFFFFFFF
                self._dropped = dropped


def _ask_for_drops(bound: socket.socket) -> None:
    try:
        bound.setsockopt(socket.SOL_SOCKET, _SO_RXQ_OVFL, 1)
    except OSError:
        return  # not Linux: drops are not counted


HANDSHAKE_SECONDS = 10.0
SWEEP_SECONDS = 1.0
"""Interval of the check for idle connections."""
BACKLOG = 128

_logger = rate_limited_logger(__name__)


class SocketListener:
    def __init__(
        self, name: str, settings: ListenSettings, inbox: Inbox, decoder: Callable[[], StreamDecoder]
    ) -> None:
        """`name` is used in error messages; `decoder` creates a decoder per connection."""
        self.name = name
        self.settings = settings
        self.decoder = decoder
        self.inbox = inbox
        self.counts = inbox.counts
        self.endpoints: list[SocketEndpoint] = []
        """Bound endpoints with their actual ports."""
        self.connections: set[SenderConnection] = set()
        self._datagrams: list[DatagramSocket] = []
        self._servers: list[asyncio.Server] = []
        self._sweep: asyncio.TimerHandle | None = None
        inbox.on_change = self._hold

    async def open(self) -> None:
        """Bind all endpoints; OSError if an address is not available."""
        tls, opened = self._tls(), list[SocketEndpoint]()
        try:
            for transport, address in endpoints_of(self.settings):
                if transport == "udp":
                    reached = self._open_datagrams(address)
                else:
                    reached = await self._open_stream(address, tls if transport == "tls" else None)
                opened.append(SocketEndpoint(transport, reached))
        except BaseException:
            self.close()
            raise
        self.endpoints = opened  # assigned at once: other threads see all endpoints or none
        self._sweep = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._close_idle)

    def stop_accepting(self) -> None:
        """Read the remaining UDP datagrams, then close all sockets and connections."""
        for datagrams in self._datagrams:
            datagrams.read_all()
            datagrams.close()
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            connection.finish()

    def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        for datagrams in self._datagrams:
            datagrams.close()
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            connection.abort()

    def admit(self, connection: SenderConnection) -> bool:
        if len(self.connections) >= self.settings.connections:
            self.counts.refused += 1
            _logger.warning(
                "closed a connection from %s: the limit of %d is reached (connections)",
                *(connection.peer, len(self.connections)),
            )
            return False
        self.connections.add(connection)
        self.counts.connections = len(self.connections)
        return True

    def leave(self, connection: SenderConnection) -> None:
        self.connections.discard(connection)
        self.counts.connections = len(self.connections)

    def _tls(self) -> ssl.SSLContext | None:
        settings = self.settings
        if settings.tls_certificate is None:
            return None
        return context_of_files(self.name, settings.tls_certificate, settings.tls_key, settings.tls_client_ca)

    def _open_datagrams(self, address: Address) -> Address:
        datagrams = DatagramSocket(
            bind(address, socket.SOCK_DGRAM), self.inbox, self.settings.max_message_bytes
        )
        self._datagrams.append(datagrams)
        datagrams.resume()
        return Address(address.host, datagrams.port)

    async def _open_stream(self, address: Address, tls: ssl.SSLContext | None) -> Address:
        listening = bind(address, socket.SOCK_STREAM)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: SenderConnection(self, tls), sock=listening, backlog=BACKLOG
        )
        self._servers.append(server)
        return Address(address.host, listening.getsockname()[1])

    def _hold(self, is_full: bool) -> None:
        everybody: list[DatagramSocket | SenderConnection] = [*self._datagrams, *self.connections]
        for each in everybody:
            if is_full:
                each.pause()
            else:
                each.resume()

    def _close_idle(self) -> None:
        oldest = time.monotonic() - self.settings.idle_timeout
        for connection in [each for each in self.connections if each.heard_at < oldest]:
            _logger.info("closed the connection from %s: idle timeout", connection.peer)
            connection.finish()
        self._sweep = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._close_idle)


class SenderConnection(asyncio.Protocol):
    """Connection of one sender. With TLS it counts towards the limit before the handshake, which may never complete."""

    def __init__(self, listener: SocketListener, tls: ssl.SSLContext | None) -> None:
        self.peer = ""
        self.heard_at = time.monotonic()
        self._listener = listener
        self._tls = tls
        self._decoder = listener.decoder()
        self._transport: asyncio.Transport | None = None
        self._handshake: asyncio.Task[None] | None = None
        self._is_ready = False  # the TLS handshake, if any, is complete

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)
        self.peer = str(stream.get_extra_info("peername", ("",))[0])
        if not self._listener.admit(self):
            stream.abort()
            return
        self._transport = stream
        if self._tls is not None:
            stream.pause_reading()  # the first bytes belong to the handshake
            self._handshake = asyncio.get_running_loop().create_task(self._do_handshake(stream, self._tls))
        else:
            self._begin()

    async def _do_handshake(self, stream: asyncio.Transport, tls: ssl.SSLContext) -> None:
        try:
            secured = await asyncio.get_running_loop().start_tls(
                stream, self, tls, server_side=True, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
        except (OSError, TimeoutError) as error:  # an SSLError is an OSError
            self._listener.counts.refused += 1
            _logger.warning("the TLS handshake with %s failed: %s", self.peer, error)
            self._transport = None
            self._listener.leave(self)
            stream.abort()
            return
        self._transport = secured
        self._begin()

    def _begin(self) -> None:
        self._is_ready = True
        if self._listener.inbox.is_full:
            self.pause()

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            return
        self.heard_at = time.monotonic()
        self._put(self._decoder.feed(data))
        if self._decoder.error is not None:
            self._listener.counts.framing_errors += 1
            _logger.warning("closed the connection from %s: %s", self.peer, self._decoder.error)
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        if self._transport is not None:
            self._put(self._decoder.end())
            self._transport = None
            self._listener.leave(self)

    def pause(self) -> None:
        if self._is_ready and self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._is_ready and self._transport is not None and not self._transport.is_closing():
            self.heard_at = time.monotonic()  # the pause does not count as idle time
            self._transport.resume_reading()

    def finish(self) -> None:
        """Deliver the buffered data and close the connection."""
        self._put(self._decoder.end())
        self.abort()

    def abort(self) -> None:
        transport, self._transport = self._transport, None
        self._listener.leave(self)
        if self._handshake is not None:
            self._handshake.cancel()
        if transport is not None:
            transport.abort()

    def _put(self, frames: list[Frame]) -> None:
        if frames:
            self._listener.inbox.put(self.peer, frames, int(time.time() * 1000))
