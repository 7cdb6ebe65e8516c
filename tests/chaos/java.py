"""Loads and a reader based on Kafka's clients, as processes that print their results."""

from __future__ import annotations

import json
import subprocess
import tempfile
import uuid
from collections import defaultdict
from functools import cache
from pathlib import Path

from barnabas.testing.client_settings import ClientSettings
from tests.chaos.loads import DELIVERY_MS, PACE, PARTITIONS, Load
from tests.support.kafka.jars import kafka_libs
from tests.support.kafka.tools import java_command
from tests.support.programs import PROJECT_ROOT

PROGRAMS = PROJECT_ROOT / "tests" / "java" / "chaos"
VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
CLIENT = "java"
KEYS = 20  # enough that their hashes fall on every partition
ENDED_BY_SIGTERM = 128 + 15
TIMEOUT = 120.0

# Other settings are the client's defaults. The tool sets no retries, which forbids idempotence.
PRODUCER_SETTINGS = {
    "enable.idempotence": "true",
    "acks": "all",
    "retries": str((1 << 31) - 1),
    "delivery.timeout.ms": str(DELIVERY_MS),
}


class _JavaLoad(Load):
    """A program that writes until SIGTERM, and prints the outcome of its records."""

    client = CLIENT

    def __init__(self, clients: ClientSettings, topic: str) -> None:
        super().__init__(clients, topic)
        self._process: subprocess.Popen[str] | None = None

    def command(self, folder: Path) -> list[str]:
        raise AssertionError("a load says what it runs")

    def heard(self, line: str) -> None:
        raise AssertionError("a load understands what it runs")

    def run(self) -> None:
        with tempfile.TemporaryDirectory(prefix="barnabas-chaos-java-") as name:
            folder = Path(name)
            self._listen(self.command(folder), folder / "errors")

    def _listen(self, command: list[str], errors: Path) -> None:
        with errors.open("w") as stderr:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        assert self._process.stdout is not None
        if self._stop.is_set():  # before the process existed
            self.asked_to_stop()
        try:
            with self._process.stdout as output:
                for line in output:
                    self.heard(line)
            ended_with = self._process.wait(TIMEOUT)
        finally:
            self.kill()
        failure = errors.read_text()[-3000:]
        assert ended_with in (0, ENDED_BY_SIGTERM), f"the producer ended with {ended_with}: {failure}"
        assert self._stop.is_set(), f"the producer ended by itself: {failure}"

    def asked_to_stop(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()


class IdempotentLoad(_JavaLoad):
    """`kafka-verifiable-producer`, which Kafka's own system tests use for this."""

    kind = "idempotent"

    def command(self, folder: Path) -> list[str]:
        settings = self._clients.write_properties(folder / "producer.properties")
        with settings.open("a") as file:
            file.writelines(f"{name}={value}\n" for name, value in PRODUCER_SETTINGS.items())
        return java_command(
            VERIFIABLE_PRODUCER,
            "--bootstrap-server", self._clients.bootstrap_servers, "--topic", self._topic,
            "--throughput", f"{1 / PACE:.0f}", "--repeating-keys", str(KEYS), "--command-config", str(settings),
        )  # fmt: skip

    def heard(self, line: str) -> None:
        event = json.loads(line)
        if event["name"] == "producer_send_success":
            self._acknowledge(int(event["value"]), event["partition"])
        elif event["name"] == "producer_send_error":
            self.unknown.add(int(event["value"]))


class TransactionalLoad(_JavaLoad):
    """Small transactions, every seventh of which is aborted on purpose."""

    kind = "transactional"

    def command(self, folder: Path) -> list[str]:
        return _program(
            "TransactionalLoad",
            str(self._clients.write_properties(folder / "client.properties")),
            self._topic,
            str(PARTITIONS),
            f"chaos-{uuid.uuid4()}",
        )

    def heard(self, line: str) -> None:
        outcome, *records = line.split()
        for partition, _, value in (record.partition(":") for record in records):
            if outcome == "committed":
                self._acknowledge(int(value), int(partition))
            else:
                {"aborted": self.aborted, "unknown": self.unknown}[outcome].add(int(value))


def read_all(clients: ClientSettings, topic: str) -> dict[int, list[int]]:
    """All records by partition that Kafka's consumer sees with read_committed."""
    with tempfile.TemporaryDirectory(prefix="barnabas-chaos-java-") as folder:
        settings = clients.write_properties(Path(folder) / "client.properties")
        command = _program("CommittedRecords", str(settings), topic)
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, f"Kafka's consumer cannot read {topic}: {done.stderr[-3000:]}"
    found: dict[int, list[int]] = defaultdict(list)
    for partition, value in map(str.split, done.stdout.splitlines()):
        found[int(partition)].append(int(value))
    return found


def _program(name: str, *args: str) -> list[str]:
    command = java_command(name, *args)
    command[command.index("-cp") + 1] += f":{_compiled().name}"
    return command


@cache
def _compiled() -> tempfile.TemporaryDirectory[str]:
    """Our programs, compiled once; the folder lives as long as this process."""
    folder = tempfile.TemporaryDirectory(prefix="barnabas-chaos-classes-")
    sources = sorted(map(str, PROGRAMS.glob("*.java")))
    subprocess.run(["javac", "-cp", f"{kafka_libs()}/*", "-d", folder.name, *sources], check=True)
    return folder
