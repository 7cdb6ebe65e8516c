"""How bytes get in and out of a socket: the seam between a connection and plain TCP (or, later, TLS)."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Protocol

from barnabas.files import Bytes

BLOCKED = (BlockingIOError, InterruptedError)
"""What a transport raises when nothing can be done now: wait until the loop says that the socket is ready."""

# Tells the kernel that more follows, so that the head of a response and its file slice share packets.
MORE_FOLLOWS = getattr(socket, "MSG_MORE", 0)


class Transport(Protocol):
    """A connected, non-blocking byte stream. The hot calls are attributes: the plain ones are the socket's own."""

    @property
    def receive(self) -> Callable[[memoryview], int]:
        """Receive into a buffer; 0 when the peer has closed. Raises one of BLOCKED, or another OSError."""
        ...

    @property
    def send(self) -> Callable[[Bytes, int], int]:
        """Send the beginning of some bytes, with flags (MORE_FOLLOWS); returns how many were taken."""
        ...

    def receive_both(self, first: memoryview, second: memoryview) -> int:
        """Fill the first buffer, and what is left over goes into the second, in one call if possible."""
        ...

    def send_file(self, fd: int, position: int, count: int) -> int:
        """Send the beginning of a part of a file; 0 means that the file ends before `position`."""
        ...

    def fileno(self) -> int: ...
    def close(self) -> None: ...


class PlainTransport:
    """TCP without encryption: the socket's own methods, and the kernel's sendfile."""

    __slots__ = ("_fd", "_receive_message", "_socket", "receive", "send")

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
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

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        self._socket.close()


# EINVAL and ENOTSUP/EOPNOTSUPP: this file system (or this kind of socket, on macOS) cannot do it.
_NO_SENDFILE = frozenset({22, 45, 95, 102})
