"""A node with several broker processes, as a child process of a test: `EmbeddedBroker(processes=2)`.

    python -m barnabas.testing.embedded_node

reads its settings from standard input, and stops when that is closed: it ends with the test, however the test ends.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.broker import Broker

READY = "ready"
START_TIMEOUT = 60.0
STOP_TIMEOUT = 60.0
TRIES = 100


def consecutive_ports(host: str, count: int) -> int:
    """The first of `count` consecutive ports that are free now."""
    for _ in range(TRIES):
        with socket.create_server((host, 0)) as probe:
            first = int(probe.getsockname()[1])
        if first + count < 65536 and all(_is_free(host, first + k) for k in range(count)):
            return first
    raise OSError(f"no {count} consecutive ports are free on {host}")


def _is_free(host: str, port: int) -> bool:
    try:
        socket.create_server((host, port)).close()
    except OSError:
        return False
    return True


class EmbeddedNode:
    """Ready when the constructor returns; raises RuntimeError with the last lines of its log if it does not start."""

    def __init__(self, properties: Mapping[str, str], processes: int, users: Mapping[str, str]) -> None:
        self._log: IO[str] = tempfile.TemporaryFile("w+", prefix="barnabas-node-")  # noqa: SIM115
        command = [sys.executable, "-m", "barnabas.testing.embedded_node"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            process_group=0,
        )
        assert self._process.stdin is not None
        start = {"properties": dict(properties), "processes": processes, "users": dict(users)}
        self._process.stdin.write(json.dumps(start) + "\n")
        self._process.stdin.flush()
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        assert self._process.stdout is not None
        watchdog = threading.Timer(START_TIMEOUT, self._process.kill)
        watchdog.start()
        line = self._process.stdout.readline()
        watchdog.cancel()
        if line.strip() != READY:
            self._process.kill()
            self._process.wait()
            text = "\n".join(self._lines()[-5:])
            self._close()
            raise RuntimeError(f"the broker did not start:\n{text}")

    def _lines(self) -> list[str]:
        """Lines of the log."""
        return os.pread(self._log.fileno(), 1 << 24, 0).decode(errors="replace").splitlines()

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._log.close()

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT)
        finally:
            self._process.kill()
            self._close()

    def kill(self, process: int | None = None) -> None:
        """kill -9 of one process, which is started again, or of the whole node."""
        if process is not None:
            os.kill(self._pid(process), signal.SIGKILL)
            return
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.read()  # its end is the end of all processes, which share it
        self._close()

    def _pid(self, process: int) -> int:
        started = f"process {process} is started (pid "
        found = [line.partition(started)[2] for line in self._lines() if started in line]
        if not found:
            raise ValueError(f"the node has no process {process}")
        return int(found[-1].partition(")")[0])


def main() -> None:
    from barnabas.broker.processes import NodeConfig, NodeService, Supervisor
    from barnabas.broker.security import add_user

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    start = json.loads(sys.stdin.readline())

    async def lines_of(broker: Broker) -> list[str]:
        if broker.is_first_of_node:
            for name, password in start["users"].items():
                await add_user(broker, name, password)
        return [READY]

    def announce(lines: Iterable[str]) -> None:
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()

    node = NodeConfig(start["properties"], start["processes"])
    Supervisor(node, NodeService(lines_of, announce, ends_with=sys.stdin.fileno())).run()


if __name__ == "__main__":
    main()
