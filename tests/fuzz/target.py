"""The fuzzed broker in a separate process: `python -m tests.fuzz.target FOLDER CONTROL_FD [mutant]`.

A hung broker can be killed, and its memory is its own. The loop's callbacks are timed with the CPU clock of their
thread, so that a busy machine looks no different from an idle one. Through the control socket, served by the same loop,
the fuzzer asks what the last frames have cost; that is also the ping that must be answered.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
import sys
from asyncio import events
from time import thread_time
from typing import Any

from barnabas.broker import main as collector
from barnabas.broker.broker import Broker
from barnabas.broker.security.offline import add_user
from barnabas.config.broker import BrokerConfig
from barnabas.testing.embedded import TEST_SETTINGS
from tests.fuzz.mutant import mutate
from tests.fuzz.variants import PASSWORD, USER, settings

SETTINGS = {
    **TEST_SETTINGS,
    **settings(),
    "node.id": "1",
    "group.coordinator.rebalance.protocols": "classic,consumer,share,streams",
}
KEPT_COMPLAINTS = 20
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")
_STATUS = re.compile(r"^(VmHWM|VmRSS):\s+(\d+)", re.MULTILINE)


class Stopwatch:
    """How long the loop was held: by one request, or by one callback that handled at most one."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.culprit: int | None = None  # its correlation id
        self.by_api: dict[int, float] = {}
        self.current: int | None = None
        self._dispatched = 0

    def install(self, broker: Broker) -> None:
        run = events.Handle._run

        def timed(handle: events.Handle) -> None:
            self._dispatched = 0
            began = thread_time()
            run(handle)
            if self._dispatched <= 1:
                self._note(thread_time() - began)

        events.Handle._run = timed  # type: ignore[method-assign,assignment]
        dispatch = broker.dispatcher.dispatch

        def noted(*args: Any) -> None:
            self._dispatched += 1
            self.current = args[5]
            began = thread_time()
            dispatch(*args)
            held = thread_time() - began
            self._note(held)
            api_key = args[4] >> 16
            if held > self.by_api.get(api_key, 0.0):
                self.by_api[api_key] = held

        broker.dispatcher.dispatch = noted  # type: ignore[method-assign,assignment]
        authenticate = broker.dispatcher.authenticate

        def noted_before(*args: Any) -> None:
            self.current = args[5]  # of one that is refused, too
            authenticate(*args)

        broker.dispatcher.authenticate = noted_before  # type: ignore[method-assign,assignment]

    def _note(self, held: float) -> None:
        if held > self.longest:
            self.longest, self.culprit = held, self.current


class Complaints(logging.Handler):
    """Logged tracebacks and client text."""

    def __init__(self, watch: Stopwatch) -> None:
        super().__init__()
        self._watch = watch
        self.lines = 0
        self.found: list[tuple[int | None, str]] = []  # each with the latest request

    def emit(self, record: logging.LogRecord) -> None:
        self.lines += 1
        text = record.getMessage()
        if record.exc_info:
            self._keep("error", logging.Formatter().format(record)[-3000:])
        elif _CONTROL_CHARACTER.search(text):
            self._keep("forged", repr(text[:200]))

    def _keep(self, kind: str, text: str) -> None:
        if len(self.found) < KEPT_COMPLAINTS:
            self.found.append((self._watch.current, f"{kind}: {text}"))


class Control:
    def __init__(
        self, broker: Broker, watch: Stopwatch, complaints: Complaints, channel: socket.socket
    ) -> None:
        self._broker = broker
        self._watch = watch
        self._complaints = complaints
        self._channel = channel

    def serve(self) -> None:
        command = self._channel.recv(64)
        if not command:
            os._exit(0)  # the fuzzer has exited
        if command == b"ping\n":
            # Handshake work of threads reaches the loop later.
            handshakes = len(self._broker.sockets.tls.handshakes._in_threads)
            waiting = len(asyncio.get_running_loop()._ready) + handshakes  # type: ignore[attr-defined]
            tasks = len(self._broker.dispatcher._tasks)
            self._channel.sendall(b'{"waiting": %d, "tasks": %d}\n' % (waiting, tasks))
            return
        if command == b"reset\n":
            with open("/proc/self/clear_refs", "w") as clear:
                clear.write("5")
        self._channel.sendall(json.dumps(self._stats()).encode() + b"\n")

    def _stats(self) -> dict[str, Any]:
        watch, complaints = self._watch, self._complaints
        memory = {name: int(value) * 1024 for name, value in _STATUS.findall(_read("/proc/self/status"))}
        stats = {
            "longest": watch.longest,
            "culprit": watch.culprit,
            "rss": memory["VmRSS"],
            "peak": memory["VmHWM"],
            "pool": self._broker.sockets.memory.used,
            "connections": len(self._broker.sockets.connections),
            "by_api": watch.by_api,
            "lines": complaints.lines,
            "complaints": complaints.found,
        }
        watch.longest, watch.culprit, watch.by_api = 0.0, None, {}
        complaints.lines, complaints.found = 0, []
        return stats


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()


async def _serve(folder: str, channel: socket.socket, is_mutant: bool) -> None:
    watch = Stopwatch()
    complaints = Complaints(watch)
    logging.basicConfig(level=logging.INFO, handlers=[complaints])
    broker = Broker(BrokerConfig.load({**SETTINGS, "log.dirs": folder}))
    if is_mutant:
        mutate(broker)
    watch.install(broker)
    collector.collect_rarely()
    await broker.start()
    await add_user(broker, USER, PASSWORD)
    collector.keep_all()
    broker.metadata.on_commit.append(collector.keep_many)
    control = Control(broker, watch, complaints, channel)
    asyncio.get_running_loop().add_reader(channel.fileno(), control.serve)
    ports = {listener.name.lower(): listener.port for listener in broker.listeners}
    channel.sendall(json.dumps(ports).encode() + b"\n")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], socket.socket(fileno=int(sys.argv[2])), sys.argv[3:] == ["mutant"]))
