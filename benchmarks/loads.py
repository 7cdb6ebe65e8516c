"""Loads of the rows: Kafka's perf tools, and the programs in clients/."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from benchmarks.subjects.brokers import Broker
from tests.support.kafka.tools import ToolResult, run_tool
from tests.support.programs import PROJECT_ROOT

# JVM options that kafka-run-class.sh passes to the perf tools.
_PERF_FLAGS = ("-server", "-Xmx512M", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
_TIMEOUT_SECONDS = 900  # with 0.2 cores
_PRODUCER_RATE = re.compile(r"([\d.]+) records/sec")
NO_PROPERTIES: Mapping[str, str] = {}
_CONSUMER_RATE_COLUMN = 9  # fetch.nMsg.sec: excludes the time to join a group


class Costly(Protocol):
    """A broker or cluster: its address, and the CPU time it has used."""

    @property
    def bootstrap(self) -> str: ...
    def cpu_seconds(self) -> float: ...


def with_cpu(broker: Costly, load: Callable[[], float]) -> dict[str, float]:
    """Run a load that returns a rate; return the rate and the CPU time of the broker."""
    before = broker.cpu_seconds()
    rate = load()
    return {"rate": rate, "cpu": broker.cpu_seconds() - before}


def producer_perf_test(
    broker: Costly, topic: str, records: int, record_bytes: int, properties: Mapping[str, str]
) -> float:
    """Run kafka-producer-perf-test; return records per second."""
    result = run_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic),
        *("--num-records", str(records), "--record-size", str(record_bytes), "--throughput", "-1"),
        *("--command-property", *(f"{name}={value}" for name, value in properties.items())),
        timeout=_TIMEOUT_SECONDS,
        flags=_PERF_FLAGS,
    ).check()
    if f"{records} records sent" not in result.stdout:
        raise RuntimeError(f"not every record was sent:\n{result.stdout}\n{result.stderr}")
    return float(_PRODUCER_RATE.findall(result.stdout)[-1])


def consumer_perf_test(
    broker: Costly, topic: str, records: int, group: str, properties: Mapping[str, str] = NO_PROPERTIES
) -> float:
    """Run kafka-consumer-perf-test in a new group; return records per second."""
    arguments = [
        part for name, value in properties.items() for part in ("--command-property", f"{name}={value}")
    ]
    result = run_tool(
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--group", group),
        *("--num-records", str(records), "--hide-header"),
        *arguments,
        timeout=_TIMEOUT_SECONDS,
        flags=_PERF_FLAGS,
    ).check()
    return float(_last_line(result).split(", ")[_CONSUMER_RATE_COLUMN])


def client(program: str, *options: object) -> dict[str, float]:
    """Run a program of clients/ and return its figures."""
    figures: dict[str, float] = json.loads(_output_of(client_command(program, *options)).splitlines()[-1])
    return figures


def client_command(program: str, *options: object) -> list[str]:
    return [sys.executable, "-m", f"benchmarks.clients.{program}", *(str(option) for option in options)]


@contextmanager
def pinged(port: int, *options: object) -> Iterator[dict[str, float]]:
    """Ping the broker from another process (clients/ping.py); the figures are available after the block."""
    seen: dict[str, float] = {}
    command = client_command("ping", "--port", port, *options)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            if not process.stdout.readline():
                raise RuntimeError(f"{' '.join(command)} got no answer")
            yield seen
            seen |= json.loads(process.communicate(timeout=_TIMEOUT_SECONDS)[0])
        finally:
            process.kill()


def request_load(
    broker: Broker,
    api: str,
    topic: str,
    *,
    partitions: int,
    connections: int,
    requests: int,
    end_offset: int = 0,
    fetch_bytes: int = 65536,
    groups: int = 1,
    at_once: bool = False,
) -> float:
    """Send single requests over many connections (clients/loadgen.py); return requests per second."""
    figures = client(
        "loadgen",
        *("--port", broker.port, "--api", api, "--topic", topic, "--partitions", partitions),
        *("--connections", connections, "--requests", requests),
        *("--end-offset", end_offset, "--fetch-bytes", fetch_bytes, "--groups", groups),
        *(["--at-once"] if at_once else []),
    )
    return figures["requests"] / figures["seconds"]


def fill_log(broker: Broker, topic: str, size: int) -> int:
    """Fill partition 0 with a log of that size; return the number of records."""
    return int(client("fill", "--port", broker.port, "--topic", topic, "--bytes", size)["records"])


def _output_of(command: list[str], folder: Path = PROJECT_ROOT) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def _last_line(result: ToolResult) -> str:
    return result.stdout.strip().splitlines()[-1]
