"""Bytecode instructions and calls into C that the broker executes for one request.

    python -m benchmarks.instructions            # one JSON object: load -> [instructions, calls]

Unlike CPU time these counts hardly vary from run to run, even on a busy machine, so limits can be a few per cent above
them. They include every line of Python and every system call of the hot path, but not the cost of a call into C: CPU
times do (gate.py). Counts differ between versions of Python.
"""

import json
import socket
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from barnabas.testing import EmbeddedBroker
from benchmarks.gate_loads import LOADS, Load

_WARM_UP, _REQUESTS = 50, 200
_ROUNDS = 3
_SETTINGS = {"barnabas.log.dir.slow.write.ms": "0"}  # writes are slow while each instruction is counted
_OURS = ("/barnabas/", "<decode ", "<encode ")
_LOOP = "network/event_loop.py"  # its turns are not counted, nor were asyncio's: they vary


class Counter:
    """Counts in the thread of the broker, by the hooks that debuggers and profilers use."""

    def __init__(self) -> None:
        self.instructions = 0
        self.calls = 0
        self._ours: dict[CodeType, bool] = {}

    def install(self) -> None:
        """Count in threads that are started from now on."""
        threading.settrace(self._entered)
        threading.setprofile(self._called)

    def remove(self) -> None:
        threading.settrace(None)
        threading.setprofile(None)

    def _is_ours(self, code: CodeType) -> bool:
        known = self._ours.get(code)
        if known is None:
            name = code.co_filename
            known = self._ours[code] = any(part in name for part in _OURS) and not name.endswith(_LOOP)
        return known

    def _entered(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        if not self._is_ours(frame.f_code):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._stepped

    def _stepped(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        if event == "opcode":
            self.instructions += 1
        return self._stepped

    def _called(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call" and self._is_ours(frame.f_code):
            self.calls += 1


def measure() -> dict[str, tuple[float, float]]:
    """Instructions and calls per request of each load."""
    counter = Counter()
    counter.install()
    try:
        with EmbeddedBroker(_SETTINGS) as broker:
            return {load.name: _least(counter, broker, load) for load in LOADS}
    finally:
        counter.remove()


def _least(counter: Counter, broker: EmbeddedBroker, load: Load) -> tuple[float, float]:
    """The least of some rounds: what the broker does by the clock only ever adds."""
    topic = broker.create_topic(load.name, partitions=1)
    with socket.create_connection((broker.host, broker.port)) as connection:
        load.prepare(connection, topic)
        _exchange(connection, load.frame(topic), _WARM_UP)
        return min(_round(counter, connection, load.frame(topic)) for _ in range(_ROUNDS))


def _round(counter: Counter, connection: socket.socket, frame: bytes) -> tuple[float, float]:
    instructions, calls = counter.instructions, counter.calls
    _exchange(connection, frame, _REQUESTS)
    return (counter.instructions - instructions) / _REQUESTS, (counter.calls - calls) / _REQUESTS


def _exchange(connection: socket.socket, frame: bytes, requests: int) -> None:
    for _ in range(requests):
        connection.sendall(frame)
        length = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
        connection.recv(length, socket.MSG_WAITALL)


def main() -> None:
    json.dump(measure(), sys.stdout)


if __name__ == "__main__":
    main()
