"""A program of `barnabas` whose event loop is watched: `python -m tests.fuzz.ports.watched CONTROL_FD ARGUMENT ...`

Callbacks are timed with the CPU clock of their thread. A thread answers the control socket, so that what a loop has
cost can be asked for while it is busy; `ping` goes through the loop.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
import sys
import threading
from asyncio import events
from time import thread_time
from typing import Any

PING_SECONDS = 60.0
KEPT_COMPLAINTS = 20
MUTANT = "BARNABAS_FUZZ_MUTANT"
_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_STATUS = re.compile(r"^(VmHWM|VmRSS):\s+(\d+)", re.MULTILINE)


class Stopwatch:
    def __init__(self) -> None:
        self.longest = 0.0
        self.where = ""
        self.loop: asyncio.AbstractEventLoop | None = None

    def install(self) -> None:
        run = events.Handle._run

        def timed(handle: Any) -> None:
            began = thread_time()
            run(handle)
            held = thread_time() - began
            self.loop = handle._loop
            if held > self.longest:
                self.longest, self.where = held, repr(handle)[:300]

        events.Handle._run = timed  # type: ignore[method-assign,assignment]


class Complaints(logging.Handler):
    """Tracebacks, and lines with client text."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = 0
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines += 1
        text = record.getMessage()
        if record.exc_info:
            self._keep("traceback: " + logging.Formatter().format(record)[-2000:])
        elif _CONTROL_CHARACTER.search(text):
            self._keep("forged: " + repr(text[:200]))

    def _keep(self, text: str) -> None:
        if len(self.found) < KEPT_COMPLAINTS:
            self.found.append(text)


class Control:
    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._watch = Stopwatch()
        self._complaints = Complaints()

    def install(self) -> None:
        self._watch.install()
        logging.getLogger().addHandler(self._complaints)
        threading.excepthook = lambda failure: self._complaints.found.append(f"traceback: {failure}")
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with self._channel.makefile("rb") as questions:
            for question in questions:
                answer = {b"ping\n": self._ping, b"reset\n": self._reset, b"stats\n": self._stats}[question]()
                self._channel.sendall(json.dumps(answer).encode() + b"\n")
        os._exit(0)  # the fuzzer has exited

    def _ping(self) -> dict[str, Any]:
        """Does the loop still turn, and has it anything to do?"""
        loop, turned = self._watch.loop, threading.Event()
        if loop is None:
            return {"turns": False, "waiting": 0}
        loop.call_soon_threadsafe(turned.set)
        return {"turns": turned.wait(PING_SECONDS), "waiting": len(loop._ready)}  # type: ignore[attr-defined]

    def _reset(self) -> dict[str, Any]:
        with open("/proc/self/clear_refs", "w") as clear:
            clear.write("5")
        self._watch.longest, self._watch.where = 0.0, ""
        self._complaints.lines, self._complaints.found = 0, []
        return self._stats()

    def _stats(self) -> dict[str, Any]:
        with open("/proc/self/status") as status:
            memory = {name: int(value) * 1024 for name, value in _STATUS.findall(status.read())}
        return {
            "longest": self._watch.longest,
            "where": self._watch.where,
            "rss": memory["VmRSS"],
            "peak": memory["VmHWM"],
            "lines": self._complaints.lines,
            "complaints": self._complaints.found,
        }


def mutate() -> None:
    """Bodies that trigger defects, to test the fuzzer."""
    from barnabas.web import asgi

    read = asgi.read_body

    async def harmful(*arguments: Any, **options: Any) -> bytes:
        body = await read(*arguments, **options)
        began = thread_time()
        while body == b"loop" and thread_time() < began + 0.05:
            pass
        if body == b"memory":
            bytearray(200 << 20)[::4096] = bytes((200 << 20) // 4096)
        if body == b"error":
            raise RuntimeError("as planned")
        return body

    asgi.read_body = harmful


def main() -> None:
    channel = socket.socket(fileno=int(sys.argv[1]))
    sys.argv = ["barnabas", *sys.argv[2:]]
    Control(channel).install()
    # The loop of brokers calls some functions past asyncio's handles, where the stopwatch is.
    from barnabas.network import event_loop

    event_loop.new_event_loop = asyncio.new_event_loop
    if MUTANT in os.environ:
        mutate()
    from barnabas.cli.main import main as barnabas

    barnabas()


if __name__ == "__main__":
    main()
