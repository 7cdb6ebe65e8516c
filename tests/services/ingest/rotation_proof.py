"""`make ingest-rotations`: a log under real logrotate, with kill -9 of the agent every second, of the broker every ten.

    python -m tests.services.ingest.rotation_proof --rotations 1000 --kinds create,copytruncate,compress

Every line must be in the topic once. For `create` the writer never stops: it writes to the renamed file until logrotate
is done, as programs do. It rests while logrotate copies and truncates, or compresses: what is written then, logrotate
loses itself.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from confluent_kafka import Consumer

from tests.services.ingest.processes import IngestProcess
from tests.support.brokers import BrokerProcess
from tests.support.programs import SERVERS

KINDS = ("create", "copytruncate", "compress")
TOPIC = "logs"
KEPT = 80
"""Rotated files that logrotate keeps."""
BEHIND = 8
"""Files that the agent may be behind: it cannot read what is removed, and kills should meet it at work."""
LINES = 40
"""In each file, some of them longer than a page."""
AGENT_SECONDS, BROKER_SECONDS = 1.0, 10.0
TIMEOUT = 300.0
SHOWN = 3


class Seen(threading.Thread):
    """Follows the topic with librdkafka, committed records only."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        settings = {"bootstrap.servers": servers, "group.id": uuid4().hex, "auto.offset.reset": "earliest"}
        more = {
            "isolation.level": "read_committed",
            "topic.metadata.refresh.interval.ms": 500,
            "log_level": 1,
        }
        self._consumer = Consumer({**settings, **more})
        self._consumer.subscribe([TOPIC])
        self._over = threading.Event()
        self.numbers: list[int] = []
        self.locations: dict[int, list[str]] = defaultdict(list)
        self.start()

    def run(self) -> None:
        while not self._over.is_set():
            for message in self._consumer.consume(1000, 0.2):
                if message.error() is None:
                    number = int((message.value() or b"").split()[1])
                    self.numbers.append(number)
                    self.locations[number].append(
                        f"{message.offset()}: {message.timestamp()[1]} {message.headers()}"
                    )
        self._consumer.close()

    def end(self) -> None:
        self._over.set()
        self.join()


class Killer(threading.Thread):
    """Kills something again and again; later if nothing was done since the last time, or nothing ever would be."""

    def __init__(self, victim: BrokerProcess | IngestProcess, seconds: float, progress: list[int]) -> None:
        super().__init__(daemon=True)
        self._victim, self._seconds, self._progress = victim, seconds, progress
        self._over = threading.Event()
        self.kills = 0
        self.longest = seconds
        self.start()

    def run(self) -> None:
        wait, before = self._seconds, -1
        while not self._over.wait(wait):
            wait = self._seconds if len(self._progress) > before else min(2 * wait, 30.0)
            before = len(self._progress)
            self.longest = max(self.longest, wait)
            self._victim.kill()
            self.kills += 1
            self._victim.start()

    def end(self) -> None:
        self._over.set()
        self.join()


@dataclass
class Log:
    """A log that a program writes, and logrotate rotates."""

    kind: str
    folder: Path
    written: int = 0
    chance: random.Random = field(default_factory=lambda: random.Random(2026))

    def __post_init__(self) -> None:
        self.path = self.folder / "app.log"
        self._config, self._state = self.folder / "rotate.conf", self.folder / "state"
        options = "\n".join(
            [f"rotate {KEPT}", "missingok", "create" if self.kind != "copytruncate" else "", self.kind]
        )
        self._config.write_text(f"{self.path} {{\n{options}\n}}\n")
        self._config.chmod(0o644)
        self.folder.chmod(0o755)
        self._file = self.path.open("ab", buffering=0)

    def write(self, count: int) -> None:
        """Some lines are written in two parts, some are long."""
        for _ in range(count):
            line = b"line %d %s\n" % (self.written, b"x" * self.chance.choice((5, 80, 200, 9000)))
            cut = self.chance.randrange(len(line)) if self.chance.random() < 0.2 else 0
            if cut:
                self._file.write(line[:cut])
            self._file.write(line[cut:])
            self.written += 1

    def rotate(self) -> None:
        command = ["logrotate", "--force", "--state", str(self._state), str(self._config)]
        if self.kind == "create":
            rotating = subprocess.Popen(command, env={"PATH": SERVERS}, stderr=subprocess.PIPE, text=True)
            while rotating.poll() is None:
                self.write(1)
                time.sleep(0.001)
            assert rotating.returncode == 0, rotating.communicate()
            self.write(3)  # to the renamed file: the program is not signalled yet
        else:
            subprocess.run(command, env={"PATH": SERVERS}, check=True, capture_output=True)
        if self.kind != "copytruncate":
            self._file.close()
            self._file = self.path.open("ab", buffering=0)

    def close(self) -> None:
        self._file.close()


def prove(kind: str, rotations: int) -> bool:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="barnabas-rotation-") as name, ExitStack() as stack:
        folder = Path(name)
        logs = folder / "logs"
        logs.mkdir()
        log = Log(kind, logs)
        stack.callback(log.close)
        broker = stack.enter_context(BrokerProcess(folder / "data"))
        seen = Seen(broker.bootstrap_servers)
        agent = IngestProcess(
            broker.bootstrap_servers, "files", f"{log.path}*", "-t", TOPIC, "--agent", "proof"
        )
        agent.start()
        stack.callback(agent.kill)
        killers = [Killer(agent, AGENT_SECONDS, seen.numbers), Killer(broker, BROKER_SECONDS, seen.numbers)]
        for _ in range(rotations):
            log.write(LINES)
            _wait(lambda: log.written - len(seen.numbers) < BEHIND * LINES)
            log.rotate()
        log.write(1)
        for killer in killers:
            killer.end()
        _wait(lambda: len(seen.numbers) >= log.written)
        time.sleep(2)  # duplicates would appear now
        seen.end()
        for number in [number for number, locations in seen.locations.items() if len(locations) > 1][:SHOWN]:
            sys.stderr.write(f"{number} came twice: {seen.locations[number]}\n")
        return _report(kind, rotations, log.written, seen.numbers, killers, time.monotonic() - began)


def _wait(done: object) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not done() and time.monotonic() < deadline:  # type: ignore[operator]
        time.sleep(0.01)


def _report(
    kind: str, rotations: int, written: int, numbers: list[int], killers: list[Killer], seconds: float
) -> bool:
    counts = Counter(numbers)
    lost = sum(number not in counts for number in range(written))
    double = sum(count - 1 for count in counts.values())
    agents, brokers = killers
    say(
        f"| {kind} | {rotations:,} | {written:,} | {agents.kills} | {brokers.kills} | {lost} | {double} "
        f"| {seconds:.0f} s, at most {agents.longest:.0f} s between two kills of the agent |"
    )
    return not lost and not double


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rotations", type=int, default=1000)
    parser.add_argument("--kinds", default=",".join(KINDS))
    arguments = parser.parse_args()
    say("| kind | rotations | lines | agent killed | broker killed | lost | double | took |")
    say("|---|---|---|---|---|---|---|---|")
    good = [prove(kind, arguments.rotations) for kind in arguments.kinds.split(",")]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
