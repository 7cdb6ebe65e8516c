"""How long others wait while one client asks for much: pings on a connection of their own."""

from __future__ import annotations

import socket
import struct
import threading
import time
from types import TracebackType
from typing import Self

from barnabas.protocol.messages.metadata import ApiVersionsRequest
from tests.server.harness import frame

PAUSE_SECONDS = 0.002


class Pings:
    """Sends ApiVersions again and again from a thread; `longest` is the longest wait for an answer in seconds."""

    def __init__(self, port: int) -> None:
        self.longest = 0.0
        self.count = 0
        self._connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._ping()  # the first one makes the broker compile the route
        self.longest = 0.0
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while not self._over.wait(PAUSE_SECONDS):
            self._ping()

    def _ping(self) -> None:
        began = time.monotonic()
        self._connection.sendall(frame(ApiVersionsRequest("ping", "1"), 3))
        (length,) = struct.unpack(">i", self._connection.recv(4, socket.MSG_WAITALL))
        self._connection.recv(length, socket.MSG_WAITALL)
        self.longest = max(self.longest, time.monotonic() - began)
        self.count += 1
