"""Latency of small requests to brokers: consecutive ApiVersions requests from a thread."""

import socket
import threading
import time
from types import TracebackType
from typing import Self

from benchmarks.wire import api_versions_frame

_PAUSE_SECONDS = 0.001


class Probe:
    """`longest` is the slowest response of any broker, in seconds, during the block."""

    def __init__(self, addresses: list[tuple[str, int]]) -> None:
        self.longest = 0.0
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(address,), daemon=True) for address in addresses
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, address: tuple[str, int]) -> None:
        frame = api_versions_frame()
        with socket.create_connection(address, timeout=30) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while not self._stop.is_set():
                begin = time.perf_counter()
                connection.sendall(frame)
                receive_frame(connection)
                self.longest = max(self.longest, time.perf_counter() - begin)
                time.sleep(_PAUSE_SECONDS)


def receive_frame(connection: socket.socket) -> bytes:
    """The next response, without its length prefix."""
    size = int.from_bytes(_receive(connection, 4), "big")
    return _receive(connection, size)


def _receive(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        piece = connection.recv(count - len(received))
        if not piece:
            raise ConnectionError("the broker closed the connection")
        received += piece
    return received
