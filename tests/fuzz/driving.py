"""The fuzzer's control of the broker: starting, killing, sending frames, reading responses and costs."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.lines import CLOSED, LoginRefusedError, connected, received, sent
from tests.fuzz.variants import PLAIN

ROOT = Path(__file__).parents[2]
START_SECONDS = 600.0  # a start at the lowest priority on a busy machine took more than a minute
HUNG_SECONDS = 60.0  # a broker that does not answer its control socket for so long is killed
# Without an answer for so long although the loop has nothing else to do, it is a long poll and not waited for.
QUIET_SECONDS = 0.004
SEND_SECONDS = 60.0
CONNECTING = 8  # handshakes at once
LEFT_OVER_SECONDS = 5.0  # limit of the wait for pending work before a frame is measured


class Hung(Exception):  # noqa: N818  (a finding, not a mistake)
    """The broker did not answer, or has ended."""


@dataclass
class Cost:
    """Cost of the frames since the last query."""

    seconds: float
    culprit: int | None
    peak: int  # bytes of memory, more than before
    pool: int
    lines: int
    complaints: list[tuple[int | None, str]]  # each with the correlation id of the latest request
    by_api: dict[str, float]  # by API key


@dataclass
class Talk:
    """Frames of one connection and its responses."""

    frames: Sequence[bytes]
    answers: list[bytes] = field(default_factory=list)
    closed: bool = False


class Heartbeat:
    """Detects suspensions of this process, after which the broker has closed waiting connections."""

    def __init__(self) -> None:
        self._latest, self._longest = time.monotonic(), 0.0
        threading.Thread(target=self._beat, daemon=True).start()

    def longest_gap(self) -> float:
        """Seconds, since the last call."""
        self._note()
        found, self._longest = self._longest, 0.0
        return found

    def _beat(self) -> None:
        while True:
            time.sleep(1.0)
            self._note()

    def _note(self) -> None:
        now = time.monotonic()
        self._longest, self._latest = max(self._longest, now - self._latest), now


class Target:
    """A broker process with a separate folder, which `stop` removes."""

    def __init__(self, *arguments: str) -> None:
        self._folder = tempfile.mkdtemp(prefix="barnabas-fuzz-")
        ours, remote = socket.socketpair()
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.target", self._folder, str(remote.fileno()), *arguments],
            pass_fds=[remote.fileno()],
            env=environment,
            cwd=ROOT,
        )
        remote.close()
        self._control = ours
        self._control.settimeout(START_SECONDS)
        self._ports: dict[str, int] = json.loads(self._line())
        self.variant = PLAIN  # how frames are sent
        self._control.settimeout(HUNG_SECONDS)
        self._floor = 0
        self._threads = ThreadPoolExecutor(CONNECTING)
        self.settle()

    def stop(self) -> None:
        self._threads.shutdown()
        self._control.close()
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def files(self) -> tuple[int, int]:
        """How many files the broker has, and their bytes on the disk."""
        count = size = 0
        for folder, _, names in os.walk(self._folder):
            for name in names:
                count += 1
                with contextlib.suppress(FileNotFoundError):
                    size += os.stat(os.path.join(folder, name)).st_blocks * 512
        return count, size

    # -- what it costs ------------------------------------------------------------------------------

    def cost(self) -> Cost:
        """Query and reset the cost. The peak covers the time since `settle`: identifying the frame needs another
        run."""
        stats = self._ask(b"stats\n")
        return Cost(
            stats["longest"],
            stats["culprit"],
            stats["peak"] - self._floor,
            stats["pool"],
            stats["lines"],
            stats["complaints"],
            stats["by_api"],
        )

    def _is_idle(self) -> bool:
        """True if the loop has completed all work; slices wait for the next iteration."""
        return int(self._ask(b"ping\n")["waiting"]) == 0

    def settle(self) -> dict[str, Any]:
        """Start measuring memory; return the amount before."""
        deadline = time.monotonic() + LEFT_OVER_SECONDS
        while any(self._ask(b"ping\n").values()) and time.monotonic() < deadline:
            time.sleep(QUIET_SECONDS)
        before = self._ask(b"stats\n")
        self._floor = self._ask(b"reset\n")["rss"]
        return before

    def pool_in_use(self) -> int:
        """Bytes held for requests without connections, when those that were in progress have ended."""
        deadline = time.monotonic() + HUNG_SECONDS
        while self._ask(b"stats\n")["connections"] and time.monotonic() < deadline:
            time.sleep(QUIET_SECONDS)
        return int(self.settle()["pool"])

    def _ask(self, question: bytes) -> dict[str, Any]:
        try:
            self._control.sendall(question)
            answer: dict[str, Any] = json.loads(self._line())
        except (OSError, ValueError) as error:
            raise Hung(f"the broker does not answer: {error!r}, exit code {self._process.poll()}") from error
        return answer

    def _line(self) -> bytes:
        received = b""
        while not received.endswith(b"\n"):
            chunk = self._control.recv(65536)
            if not chunk:
                raise Hung(f"the broker has ended with code {self._process.wait()}")
            received += chunk
        return received

    # -- frames -------------------------------------------------------------------------------------

    def exchange(
        self, frames: Sequence[bytes], expected: int | None = None, quiet: float = QUIET_SECONDS
    ) -> Talk:
        """Send frames on one connection; read until all responses arrived, or the broker closes or is silent."""
        [talk] = self.exchange_all([(frames, len(frames) if expected is None else expected)], quiet)
        return talk

    def exchange_all(
        self, conversations: Sequence[tuple[Sequence[bytes], int]], quiet: float = QUIET_SECONDS
    ) -> list[Talk]:
        """Converse on as many connections at once, each with the number of answers that are expected."""
        with contextlib.ExitStack() as stack:
            lines = [
                _Line(stack.enter_context(client), Talk(frames), expected)
                for client, (frames, expected) in zip(
                    self._connections(len(conversations)), conversations, strict=True
                )
            ]
            self._converse(lines, quiet)
            return [line.talk for line in lines]

    def _connections(self, count: int) -> list[socket.socket]:
        """Handshakes and logins run in parallel: they mostly wait for the broker."""
        if count == 1 or self.variant == PLAIN:
            return [self.connection() for _ in range(count)]
        return list(self._threads.map(lambda _: self.connection(), range(count)))

    def connection(self) -> socket.socket:
        """As the variant wants it. Hung, if a client that does nothing wrong cannot have it."""
        try:
            return connected(self._ports[self.variant.listener], self.variant, SEND_SECONDS)
        except (TimeoutError, LoginRefusedError, *CLOSED) as error:
            raise Hung(f"nobody can connect ({self.variant}): {error!r}") from error

    def hear(self, client: socket.socket) -> bytes | None:
        """The next bytes of the broker on a plaintext connection; None after a timeout or the end."""
        poll, is_idle = select.poll(), False
        poll.register(client, select.POLLIN)
        while not poll.poll(QUIET_SECONDS * 1000):
            if is_idle:
                return None
            is_idle = self._is_idle()
        return b"".join(received(client)) or None

    def _converse(self, lines: Sequence[_Line], quiet: float) -> None:
        deadline, is_idle, poll = time.monotonic() + SEND_SECONDS, False, select.poll()
        left: dict[int, _Line] = {}
        for line in lines:
            line.send()
            if not line.is_done:
                left[line.client.fileno()] = line
                poll.register(line.client, line.events)
        while left:
            sends = any(line.rest for line in left.values())
            events = poll.poll((SEND_SECONDS if sends else quiet) * 1000)
            if not events:
                if sends:
                    raise Hung("the broker does not read what it is sent")
                if is_idle:
                    return
                is_idle = self._is_idle() or time.monotonic() > deadline
                continue
            is_idle = False
            for descriptor, event in events:
                line = left[descriptor]
                line.proceed(event)
                if line.is_done:
                    poll.unregister(descriptor)
                    del left[descriptor]
                    line.client.close()
                else:
                    poll.modify(descriptor, line.events)


class _Line:
    """One conversation on its connection."""

    def __init__(self, client: socket.socket, talk: Talk, expected: int) -> None:
        self.client, self.talk = client, talk
        self.rest = memoryview(b"".join(talk.frames))
        self._expected, self._buffer = expected, bytearray()

    @property
    def is_done(self) -> bool:
        return self.talk.closed or (not self.rest and len(self.talk.answers) >= self._expected)

    @property
    def events(self) -> int:
        return select.POLLIN | select.POLLOUT if self.rest else select.POLLIN

    def send(self) -> None:
        try:
            self.rest = self.rest[sent(self.client, self.rest) :]
        except CLOSED:
            self.talk.closed = True

    def proceed(self, event: int) -> None:
        if event & select.POLLOUT and self.rest:
            self.send()
        if event & (select.POLLIN | select.POLLHUP | select.POLLERR) and not self.talk.closed:
            try:
                for piece in received(self.client):
                    self._buffer += piece
                    self.talk.closed = not piece
            except CLOSED:
                self.talk.closed = True
            self._take_answers()

    def _take_answers(self) -> None:
        position, buffer = 0, self._buffer
        while len(buffer) - position >= 4:
            (length,) = struct.unpack_from(">i", buffer, position)
            if len(buffer) - position - 4 < length:
                break
            self.talk.answers.append(bytes(memoryview(buffer)[position + 4 : position + 4 + length]))
            position += 4 + length
        del buffer[:position]
