"""CPU time of event loop steps, and latency of other clients meanwhile."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Generator
from pathlib import Path
from time import thread_time
from types import TracebackType
from typing import Any, Self

from barnabas.protocol.messages.metadata import ApiVersionsRequest
from tests.support.brokers import BrokerProcess
from tests.support.server import frame

PAUSE_SECONDS = 0.002  # between pings
MAX_STEP = 0.02  # CPU seconds: the target for every step on the event loop


def longest_step(steps: Generator[None, None, Any]) -> tuple[float, Any]:
    """CPU seconds of the longest step, and the result or exception of the work."""
    longest = 0.0
    while True:
        began = thread_time()
        try:
            next(steps)
        except StopIteration as end:
            return max(longest, thread_time() - began), end.value
        except Exception as error:
            return max(longest, thread_time() - began), error
        longest = max(longest, thread_time() - began)


class Pings:
    """Sends ApiVersions continuously from a thread. `longest` is the longest response time in seconds, limited to
    the broker's CPU time: on a busy machine both sides also wait for a processor."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.longest = 0.0
        self.count = 0
        self._broker = broker
        self._connection = socket.create_connection(("127.0.0.1", broker.port), timeout=60)
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
        self._ping()
        while not self._over.wait(PAUSE_SECONDS):
            self._ping()

    def _ping(self) -> None:
        began, worked = time.monotonic(), processor_seconds(self._broker.pid)
        self._connection.sendall(frame(ApiVersionsRequest("ping", "1"), 3))
        (length,) = struct.unpack(">i", self._connection.recv(4, socket.MSG_WAITALL))
        self._connection.recv(length, socket.MSG_WAITALL)
        waited = min(time.monotonic() - began, processor_seconds(self._broker.pid) - worked)
        self.longest = max(self.longest, waited)
        self.count += 1


def processor_seconds(pid: int) -> float:
    """CPU time of the threads of a process; elapsed time if unknown."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return time.monotonic()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # user and system
