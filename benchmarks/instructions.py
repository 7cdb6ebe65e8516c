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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from barnabas.testing import EmbeddedBroker
from benchmarks.gate_loads import LOADS, Load
from benchmarks.small_loads import SMALL_LOADS, SmallLoad

_WARM_UP, _REQUESTS = 50, 200
_ROUNDS = 3
_SETTINGS = {"barnabas.log.dir.slow.write.ms": "0"}  # writes are slow while each instruction is counted
_OURS = ("/barnabas/", "<decode ", "<encode ")
_WITH_TIMERS = (*_OURS, "/asyncio/")  # of long polls
_TURNS = ("network/event_loop.py", "_run_once")  # turns of the loop are not counted: they vary


class Counter:
    """Counts in the thread of the broker, by the hooks that debuggers and profilers use."""

    def __init__(self, counted: tuple[str, ...]) -> None:
        """Count in code whose file name contains one of these."""
        self.instructions = 0
        self.calls = 0
        self._counted = counted
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
            known = self._ours[code] = any(part in name for part in self._counted) and not (
                name.endswith(_TURNS) or code.co_name in _TURNS
            )
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
    """Instructions and calls per request of each load, or per exchange."""
    with _counted_broker(_OURS) as (counter, broker):
        counted = {load.name: _least(counter, broker, load) for load in LOADS}
    with _counted_broker(_WITH_TIMERS) as (counter, broker):
        return counted | {load.name: _least_of_exchanges(counter, broker, load) for load in SMALL_LOADS}


@contextmanager
def _counted_broker(counted: tuple[str, ...]) -> Iterator[tuple[Counter, EmbeddedBroker]]:
    counter = Counter(counted)
    counter.install()
    try:
        with EmbeddedBroker(_SETTINGS) as broker:
            yield counter, broker
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


def _least_of_exchanges(counter: Counter, broker: EmbeddedBroker, load: SmallLoad) -> tuple[float, float]:
    topic = broker.create_topic(load.name, partitions=load.partitions)
    with load.connected(broker.host, broker.port, topic) as exchanges:
        for _ in range(_WARM_UP):
            next(exchanges)
        return min(_round_of_exchanges(counter, exchanges) for _ in range(_ROUNDS))


def _round_of_exchanges(counter: Counter, exchanges: Iterator[None]) -> tuple[float, float]:
    instructions, calls = counter.instructions, counter.calls
    for _ in range(_REQUESTS):
        next(exchanges)
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
