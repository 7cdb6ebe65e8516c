"""Third-party clients, each as a program that reads a task from its input and prints records.

`make peers` builds them into `.cache/peers`; programs/go/task/task.go says what a task is.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import pytest

from tests.support.programs import PROJECT_ROOT
from tests.support.waiting import still_running, until

FOLDER = PROJECT_ROOT / ".cache" / "peers"
SECONDS = 60.0
COMMANDS: dict[str, list[str | Path]] = {
    "franz": [FOLDER / "go" / "franz"],
    "sarama": [FOLDER / "go" / "sarama"],
    "kafkago": [FOLDER / "go" / "kafkago"],
    "kafkajs": ["node", FOLDER / "kafkajs" / "main.js"],
    "connections": [FOLDER / "go" / "connections"],
    "rskafka": [FOLDER / "rskafka" / "release" / "rskafka-peer"],
}
ALL = ("franz", "sarama", "kafkago", "kafkajs", "rskafka")
WITH_GROUPS = ("franz", "sarama", "kafkago", "kafkajs")
WITH_TRANSACTIONS = ("franz", "sarama", "kafkajs")


class PeerRecord(NamedTuple):
    """One record as a client saw it. The filling at the end of the value is left out."""

    partition: int
    offset: int
    key: str
    value: str
    size: int
    writer: str


def require(*names: str) -> None:
    """Skip the test where a client is missing."""
    for name in names:
        if not Path(COMMANDS[name][-1]).exists():
            pytest.skip(
                f"{name} is not installed: run `make {'endurance' if name == 'connections' else 'peers'}`"
            )


class RunningPeer:
    """A client at work. Its records and events appear in `records` and `events`."""

    def __init__(self, name: str, task: dict[str, Any]) -> None:
        self.name = name
        self.records: list[PeerRecord] = []
        self.events: list[str] = []
        self.figures: dict[str, float] = {}
        self._process = subprocess.Popen(
            [str(part) for part in COMMANDS[name]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._errors: list[str] = []
        self._threads = [threading.Thread(target=read) for read in (self._read, self._read_errors)]
        for thread in self._threads:
            thread.start()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError), self._process.stdin as stdin:
            json.dump(task, stdin)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                content = json.loads(line)
                if "event" in content:
                    self.events.append(content["event"])
                elif "partition" in content:
                    self.records.append(PeerRecord(**content))
                else:
                    self.figures = content

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as errors:
            self._errors.extend(errors)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        until(
            condition,
            lambda: f"{self.name}: {self.events[-3:]}, {len(self.records)} records",
            SECONDS,
            meanwhile=still_running(
                self._process, lambda: f"{self.name} has ended:\n" + "".join(self._errors)
            ),
        )

    def wait(self, seconds: float = SECONDS) -> Self:
        """Return when the task is done."""
        try:
            code = self._process.wait(seconds)
        finally:
            self.kill()
        assert code == 0, f"{self.name} failed:\n" + "".join(self._errors)
        return self

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def start(name: str, do: str, servers: str, **task: Any) -> RunningPeer:
    return RunningPeer(name, {"do": do, "servers": servers, "first": 0, **task})


def run(name: str, do: str, servers: str, **task: Any) -> RunningPeer:
    return start(name, do, servers, **task).wait()


def read(
    name: str, servers: str, topic: str, count: int, partitions: int = 3, **task: Any
) -> set[PeerRecord]:
    """All records of a topic, each once."""
    found = run(name, "consume", servers, topic=topic, count=count, partitions=partitions, **task).records
    assert len(found) == len(set(found)), f"{name} has read records twice"
    return set(found)
