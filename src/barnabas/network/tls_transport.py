"""TLS behind `Transport`, over `ssl.MemoryBIO`: OpenSSL encrypts and decrypts in memory and never sees the
socket.

    socket -> incoming BIO -> OpenSSL -> the connection's buffer
    bytes, or a part of a file -> OpenSSL -> outgoing BIO -> socket

A transport begins with the handshake, whose steps run in threads (`handshakes`): a signature takes 0.1 to 6
ms, depending on the kind of key. Everything else happens on the loop, in pieces of 256 KiB at most, which
take 0.3 ms. A turn also ends after 512 TLS records: a peer that sends one byte in each would otherwise be
served for hundreds of milliseconds. OpenSSL processes records without data internally: 256 KiB of key
updates, 27 bytes each, took it 0.3 s. So it gets the input in slices, a turn ends with one that yields little
data, and a client that sends nothing else is disconnected.

Encrypted data that the socket does not accept stays here, and is reported to the connection as not sent. The
connection offers the same bytes again, perhaps followed by more, and learns then how many were sent. So
closing a connection never loses data that it considers sent.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from barnabas.common.files import Bytes
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.network.transport import BLOCKED
from barnabas.security import Principal
from barnabas.security.tls import explain_client

log = rate_limited_logger(__name__)

PIECE_BYTES = 256 * 1024  # read from a socket or a file, encrypted or decrypted at once
RECORDS_PER_TURN = 512  # they take a millisecond; librdkafka sends one per 2 KB
# Outcomes of a handshake; abandoned: the connection was closed before.
DONE, FAILED, ABANDONED = "done", "failed", "abandoned"
MAX_RECORD = 18 * 1024  # 16 KiB plus the overhead of encryption (RFC 5246, 6.2.3)
SLICE_BYTES = 20 * 1024  # given to OpenSSL at once: more than the longest record
LITTLE_BYTES = SLICE_BYTES // 4  # of data, in a slice
# Bytes of the rest of a request that must be available before the loop is woken up: Java sends each record
# separately. At the minimum rate (`Limits.frame_bytes_per_second`) this takes a second.
AWAITED_BYTES = 64 * 1024
_WORTH_WAITING_FOR = 2 * MAX_RECORD if sys.platform == "linux" else 1 << 62


class Buffers:
    """Buffers shared by all transports of one loop; their contents are consumed before another transport's
    turn.
    """

    def __init__(self) -> None:
        self.received = memoryview(bytearray(PIECE_BYTES))
        self.of_file = memoryview(bytearray(PIECE_BYTES))


class HandshakeSteps(Protocol):
    """Runs the steps of handshakes, and limits their number."""

    def begin(self, transport: TlsTransport) -> None: ...
    def step(self, transport: TlsTransport, tls: ssl.SSLObject) -> None:
        """Run a step in a thread, then call `stepped` of the transport on the loop."""
        ...

    def end(self, transport: TlsTransport, outcome: str) -> None: ...


Identify = Callable[[ssl.SSLObject], Principal | None]
"""Maps a certificate to its principal; raises OSError for one that is not admitted."""


class TlsTransport:
    __slots__ = (
        "_accepted", "_again", "_awaited", "_buffers", "_certified", "_failure", "_fd", "_fruitless", "_identify",
        "_incoming", "_is_open", "_loop", "_outgoing", "_readable", "_socket", "_steps", "_tls", "_undecrypted",
        "_unsent", "_writable", "is_closed",
    )  # fmt: skip

    def __init__(
        self,
        connected: socket.socket,
        loop: asyncio.AbstractEventLoop,
        context: ssl.SSLContext,
        steps: HandshakeSteps,
        buffers: Buffers,
        identify: Identify,
    ) -> None:
        self._socket = connected
        self._fd = connected.fileno()
        self._loop = loop
        self._steps = steps
        self._buffers = buffers
        self._identify = identify
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_open = self.is_closed = False  # open: the handshake is complete
        self._failure: OSError | None = None  # of the handshake
        self._certified: Callable[[Principal], None] | None = None  # until the handshake is complete
        self._readable: Callable[[], None] | None = None  # None: the connection does not want to read
        self._writable: Callable[[], None] | None = None
        self._again: asyncio.Handle | None = None
        self._unsent: memoryview | bytes = b""  # encrypted, and not accepted by the socket yet
        self._awaited = 1  # bytes until the socket counts as readable
        self._accepted = 0  # bytes offered by the connection that are encrypted in there
        self._undecrypted: memoryview | bytes = b""  # received, and not passed to OpenSSL yet
        self._fruitless = 0  # bytes passed to OpenSSL since it last returned data

    # The handshake

    def open(self, readable: Callable[[], None], certified: Callable[[Principal], None]) -> None:
        self._readable, self._certified = readable, certified
        self._steps.begin(self)
        self._loop.add_reader(self._fd, self._shake_hands)

    def _shake_hands(self) -> None:
        """Start the next step after input from the client."""
        try:
            self._feed(self._socket.recv_into(self._buffers.received, SLICE_BYTES))
        except BLOCKED:
            return
        except OSError as error:
            self.fail(error)
            return
        self._loop.remove_reader(self._fd)
        self._steps.step(self, self._tls)

    def stepped(self, error: BaseException | None) -> None:
        """Send the output of a step, then wait for the client or complete the handshake."""
        if self.is_closed or self._failure is not None:
            return
        try:
            self._send_own()
            if error is None:
                self._opened()
        except OSError as failure:
            self.fail(failure)
            return
        if isinstance(error, ssl.SSLWantReadError):
            self._loop.add_reader(self._fd, self._shake_hands)
        elif error is not None:
            self.fail(error if isinstance(error, OSError) else OSError(str(error)))

    def _opened(self) -> None:
        principal = self._identify(self._tls)
        self._is_open, self._fruitless = True, 0
        self._steps.end(self, DONE)
        certified, self._certified = self._certified, None
        if principal is not None and certified is not None:
            certified(principal)
        if self._readable is not None:
            self.start_reading(self._readable)

    def fail(self, failure: OSError) -> None:
        """End the handshake; the connection's next `receive` raises the failure."""
        self._failure = failure
        self._steps.end(self, FAILED)
        if isinstance(failure, ssl.SSLError) and not isinstance(failure, ssl.SSLEOFError):
            log.info("the TLS handshake with %s failed: %s", self._peer(), explain_client(failure))
        # Not at once: the traceback of the exception in `receive` would refer to the frames here, and those
        # to the failure.
        self._call_again()

    def _peer(self) -> str:
        try:
            return str(self._socket.getpeername()[0])
        except OSError:
            return "a disconnected client"

    # In

    def receive(self, buffer: memoryview) -> int:
        if self._failure is not None:
            raise self._failure
        if not (self._incoming.pending or self._undecrypted):
            with suppress(*BLOCKED):
                self._feed(self._socket.recv_into(self._buffers.received))
        try:
            return self._decrypt(buffer)
        finally:
            if self._undecrypted:
                self._undecrypted = memoryview(bytes(self._undecrypted))  # it may be in the shared buffer
            if self._outgoing.pending:  # an alert, or the answer to a key update
                self._send_own()

    def receive_both(self, first: memoryview, second: memoryview) -> int:
        count = self.receive(first)
        missing = len(first) - count
        if not missing:
            with suppress(*BLOCKED):
                count += self._decrypt(second)
        if missing >= _WORTH_WAITING_FOR or self._awaited != 1:
            self._await_bytes(missing)
        return count

    def _await_bytes(self, missing: int) -> None:
        """Let the kernel wait for several records of a request: a wake-up costs more than decrypting one.

        Only bytes that must come are awaited. Some of the missing ones are here already, not passed to
        OpenSSL yet or in its BIO, and OpenSSL holds the beginning of a record; the rest takes at least as
        many bytes as it is long. Linux wakes the loop up earlier when the stream ends, and when its buffer is
        full.
        """
        sure = missing - len(self._undecrypted) - self._incoming.pending - MAX_RECORD
        awaited = min(sure, AWAITED_BYTES) if sure >= MAX_RECORD else 1
        if awaited != self._awaited:
            self._awaited = awaited
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, awaited)

    def _feed(self, count: int) -> None:
        """Pass the first slice of the input to OpenSSL, or signal the end of the stream."""
        if count:
            self._undecrypted = self._buffers.received[:count]
            self._feed_slice()
        else:
            self._incoming.write_eof()

    def _feed_slice(self) -> None:
        waiting = self._undecrypted
        self._fruitless += self._incoming.write(waiting[:SLICE_BYTES])
        self._undecrypted = waiting[SLICE_BYTES:] if len(waiting) > SLICE_BYTES else b""

    def _feed_more(self, got: int) -> bool:
        """Pass another slice to OpenSSL, if there is one and the last has yielded `got` bytes of data."""
        if self._fruitless > SLICE_BYTES:  # more than an incomplete record: no honest client does so
            raise ConnectionAbortedError("it sends TLS records without data")
        if not self._undecrypted or got < LITTLE_BYTES:
            return False
        self._feed_slice()
        return True

    def _decrypt(self, buffer: memoryview) -> int:
        """Decrypt received data into the buffer; return 0 at the end of the stream."""
        tls, incoming, count, room, before = self._tls, self._incoming, 0, len(buffer), 0
        if self._undecrypted and not incoming.pending:
            self._feed_slice()
        read: Callable[[int, memoryview], int] = tls.read  # type: ignore[assignment]  # bytes only without a buffer
        for _ in range(RECORDS_PER_TURN):
            try:
                got: int = read(room - count, buffer[count:] if count else buffer)
            except ssl.SSLWantReadError:
                if not self._feed_more(count - before):
                    break
                before = count
                continue
            except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
                return count
            count += got
            self._fruitless = 0
            if not got or not self._has_more():
                return count
            if count == room:
                break
        if self._has_more():
            self._call_again()  # the socket may be silent from now on
        if not count:
            raise BlockingIOError
        return count

    def _has_more(self) -> bool:
        return bool(self._incoming.pending or self._undecrypted or self._tls.pending())

    def start_reading(self, readable: Callable[[], None]) -> None:
        self._readable = readable
        if self._failure is not None:
            self._call_again()
        elif self._is_open:
            self._loop.add_reader(self._fd, readable)
            if self._has_more():
                self._call_again()

    def stop_reading(self) -> None:
        self._readable = None
        if self._is_open:
            self._loop.remove_reader(self._fd)

    def _call_again(self) -> None:
        if self._again is None:
            self._again = self._loop.call_soon(self._read_again)

    def _read_again(self) -> None:
        self._again = None
        if self._readable is not None:
            self._readable()

    # Out

    def send(self, data: Bytes, flags: int) -> int:
        if self._unsent:
            self._send_rest()
        if self._accepted:
            return self._take_accepted()
        count = self._tls.write(data if len(data) <= PIECE_BYTES else memoryview(data)[:PIECE_BYTES])
        return self._pass_on(count, flags)

    def send_file(self, fd: int, position: int, count: int) -> int:
        if self._unsent:
            self._send_rest()
        if self._accepted:
            return self._take_accepted()
        piece = self._buffers.of_file[:count]
        count = os.preadv(fd, [piece], position)
        return self._pass_on(self._tls.write(piece[:count]), 0) if count else 0

    def _pass_on(self, count: int, flags: int) -> int:
        """Send encrypted data; `count` is its length before encryption."""
        encrypted = self._outgoing.read()
        try:
            sent = self._socket.send(encrypted, flags)
        except BLOCKED:
            sent = 0
        if sent == len(encrypted):
            return count
        self._unsent, self._accepted = memoryview(encrypted)[sent:], count
        raise BlockingIOError

    def _take_accepted(self) -> int:
        count, self._accepted = self._accepted, 0
        return count

    def _send_rest(self) -> None:
        """Raises BlockingIOError as long as the socket does not accept all of it."""
        self._unsent = self._unsent[self._socket.send(self._unsent) :]
        if self._unsent:
            raise BlockingIOError

    def _send_own(self) -> None:
        """Send OpenSSL's own output, now or when the socket is writable."""
        self._unsent = bytes(self._unsent) + self._outgoing.read()
        if not self._unsent:
            return
        try:
            self._send_rest()
        except BLOCKED:
            self._loop.add_writer(self._fd, self._send_more)

    def _send_more(self) -> None:
        with suppress(*BLOCKED):
            try:
                self._send_rest()
            except BLOCKED:
                raise
            except OSError:
                self._unsent = b""  # reading reports the reason
        if self._writable is not None:
            self._writable()
        elif not self._unsent:
            self._loop.remove_writer(self._fd)

    def start_writing(self, writable: Callable[[], None]) -> None:
        self._writable = writable
        self._loop.add_writer(self._fd, writable)

    def stop_writing(self) -> None:
        self._writable = None
        self._loop.remove_writer(self._fd)

    # The end

    def close(self) -> None:
        """Send close_notify if the socket accepts it at once, and close."""
        if self.is_closed:
            return
        self.is_closed = True
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        if self._again is not None:
            self._again.cancel()
        if self._is_open:
            self._send_close_notify()
        elif self._failure is None:
            self._steps.end(self, ABANDONED)
        self._readable = self._writable = self._certified = None
        self._failure = None  # its traceback refers to this transport, and to its connection
        self._socket.close()

    def _send_close_notify(self) -> None:
        with suppress(OSError):
            self._tls.unwrap()
        if not self._unsent:
            with suppress(OSError):
                self._socket.send(self._outgoing.read())
