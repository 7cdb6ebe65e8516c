"""UDP: a message is a datagram. Read in one go while there are any, without a call of asyncio for each."""

from __future__ import annotations

import asyncio
import socket
import struct
import time

from barnabas.client.addresses import Address
from barnabas.services.ingest.sockets.frames import BETWEEN, Frame
from barnabas.services.ingest.sockets.inbox import Inbox

IN_ONE_GO = 200
LARGEST_DATAGRAM = 64 * 1024
KERNEL_BUFFER = 8 * 1024 * 1024
"""What is asked for; the kernel gives at most net.core.rmem_max."""
_SO_RXQ_OVFL = 40  # Linux: each datagram comes with the number of those that were dropped before it
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
        """Whether there may be more."""
        now = int(time.time() * 1000)
        for _ in range(IN_ONE_GO):
            try:
                data, extra, _, sender = self._socket.recvmsg(LARGEST_DATAGRAM, 64)
            except OSError:  # there are no more; or ICMP says that somebody is away, which nobody here asked
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
