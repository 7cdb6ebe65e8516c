"""Transport of a connection: the seam between a connection and plain TCP, or TLS.

A transport watches its socket itself, because the readiness of a socket is not always that of the connection.
TLS has a handshake before the first request, may have to write before it can read on, holds decrypted bytes
while the socket is silent, and encrypted bytes that the connection considers sent. So a connection asks to be
called when it can receive or send. `tls_transport` has the TLS implementation.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Final, Protocol

from barnabas.common.files import Bytes
from barnabas.security import Principal

BLOCKED: Final = (BlockingIOError, InterruptedError)
"""Exceptions of a transport that would block: wait for the callback."""

# Announces more data to the kernel, so that the head of a response and its file slice share packets.
MORE_FOLLOWS: Final = getattr(socket, "MSG_MORE", 0)


class Transport(Protocol):
    """A connected, non-blocking byte stream. The hot calls are attributes: the plain ones are the socket's
    own.

    All of them raise one of BLOCKED, or another OSError, whose text becomes the reason for closing the
    connection: `receive` raises a failed handshake.
    """

    @property
    def receive(self) -> Callable[[memoryview], int]:
        """Receive into a buffer; 0 when the peer has closed."""
        ...

    @property
    def send(self) -> Callable[[Bytes, int], int]:
        """Send the beginning of some bytes, with flags (MORE_FOLLOWS); returns how many were taken."""
        ...

    def receive_both(self, first: memoryview, second: memoryview) -> int:
        """Fill the first buffer, then the second, in one call if possible."""
        ...

    def send_file(self, fd: int, position: int, count: int) -> int:
        """Send the beginning of a part of a file; 0 means that the file ends before `position`."""
        ...

    def open(self, readable: Callable[[], None], certified: Callable[[Principal], None]) -> None:
        """Begin with the handshake if there is one, then `start_reading`.

        `certified` is called at the end of the handshake if the client has shown a certificate.
        """
        ...

    def start_reading(self, readable: Callable[[], None]) -> None:
        """Call back whenever `receive` would not block."""
        ...

    def stop_reading(self) -> None: ...

    def start_writing(self, writable: Callable[[], None]) -> None:
        """Call back whenever `send` may accept data."""
        ...

    def stop_writing(self) -> None: ...

    def close(self) -> None:
        """Close the socket. No callback is called afterwards."""
        ...


Wrap = Callable[[socket.socket, asyncio.AbstractEventLoop], Transport]
"""Creates the transport of an accepted socket."""


class PlainTransport:
    """TCP without encryption: the socket's own methods, and the kernel's sendfile."""

    __slots__ = ("_fd", "_loop", "_receive_message", "_socket", "receive", "send")

    def __init__(self, connected: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        self._socket = connected
        self._loop = loop
        self._fd = connected.fileno()
        self._receive_message = connected.recvmsg_into
        self.receive: Callable[[memoryview], int] = connected.recv_into
        self.send: Callable[[Bytes, int], int] = connected.send

    def receive_both(self, first: memoryview, second: memoryview) -> int:
        return self._receive_message([first, second])[0]

    def send_file(self, fd: int, position: int, count: int) -> int:
        try:
            return os.sendfile(self._fd, fd, position, count)
        except BLOCKED:
            raise
        except OSError as error:
            if error.errno not in _NO_SENDFILE:
                raise
            return self.send(os.pread(fd, count, position), 0)

    def open(self, readable: Callable[[], None], certified: Callable[[Principal], None]) -> None:
        self.start_reading(readable)

    def start_reading(self, readable: Callable[[], None]) -> None:
        self._loop.add_reader(self._fd, readable)

    def stop_reading(self) -> None:
        self._loop.remove_reader(self._fd)

    def start_writing(self, writable: Callable[[], None]) -> None:
        self._loop.add_writer(self._fd, writable)

    def stop_writing(self) -> None:
        self._loop.remove_writer(self._fd)

    def close(self) -> None:
        self._socket.close()


# EINVAL and ENOTSUP/EOPNOTSUPP: not supported by this file system (or, on macOS, by this kind of socket).
_NO_SENDFILE = frozenset({22, 45, 95, 102})
