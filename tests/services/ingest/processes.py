"""Agents as separate processes, and their output read with librdkafka."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from confluent_kafka import Consumer

DEADLINE = 60.0
READY = "Ctrl-C stops it."


class IngestProcess:
    """`barnabas ingest ...` as a separate process."""

    def __init__(self, bootstrap: str, *arguments: str) -> None:
        self._command = [sys.executable, "-m", "barnabas", "ingest", *arguments, "-b", bootstrap]
        self.said_first = ""
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self._process.stdout is not None
        self.said_first = self._process.stdout.readline()
        assert READY in self.said_first

    @property
    def memory_peak(self) -> int:
        """The most memory that the process has taken so far, in bytes."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    def stop(self) -> tuple[int, str]:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        output, _ = self._process.communicate(timeout=DEADLINE)
        return self._process.returncode, output

    def wait(self) -> tuple[int, str]:
        assert self._process is not None
        output, _ = self._process.communicate(timeout=DEADLINE)
        return self._process.returncode, output


def read_committed(bootstrap: str, topic: str, enough: Callable[[list[str]], bool]) -> list[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid4().hex,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "topic.metadata.refresh.interval.ms": 200,
        }
    )
    consumer.subscribe([topic])
    values: list[str] = []
    deadline = time.monotonic() + DEADLINE
    try:
        while not enough(values) and time.monotonic() < deadline:
            messages = consumer.consume(1000, 0.2)
            values += [(each.value() or b"").decode() for each in messages if each.error() is None]
    finally:
        consumer.close()
    return values
