"""Common interface of both brokers: start, stop, addresses, cost, log directories."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.subjects.processes import CpuTimes, cpu_seconds, cpu_times, resident_bytes
from tests.support.kafka.broker import BROKER_FLAGS, ApacheKafka, answers_api_versions
from tests.support.programs import free_port

HEAP = "1g"
PLAINTEXT = "PLAINTEXT"
_IDLE_SECONDS = 2.0  # until temporary memory of the startup is released


class Process(Protocol):
    """Interface of a broker process; ApacheKafka of the tests implements it."""

    port: int

    @property
    def pid(self) -> int: ...
    def prepare(self) -> None: ...
    def launch(self) -> None: ...
    def process_ended(self) -> bool: ...
    def stop(self, timeout: float = 30) -> None: ...
    def kill(self) -> None: ...


def listeners(ports: Mapping[str, int]) -> str:
    """`listeners` in Kafka's notation; each listener is named after its protocol."""
    return ",".join(f"{protocol}://127.0.0.1:{port}" for protocol, port in ports.items())


class BarnabasProcess:
    """`barnabas serve` as a child process."""

    def __init__(
        self,
        data_dir: Path,
        settings: Mapping[str, str],
        profile_to: Path | None = None,
        source: Path | None = None,
        ports: Mapping[str, int] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._ports = ports or {PLAINTEXT: free_port()}
        self.port = self._ports[PLAINTEXT]
        self._environment = (
            environment if source is None else {**(environment or os.environ), "PYTHONPATH": str(source)}
        )
        self._data_dir = data_dir
        self._settings = settings
        self._profile_to = profile_to
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker has not been started"
        return self._process.pid

    def prepare(self) -> None:
        self._data_dir.mkdir(parents=True, exist_ok=True)

    def launch(self) -> None:
        with (self._data_dir.parent / f"{self._data_dir.name}.out").open("ab") as output:
            self._process = subprocess.Popen(
                self.command(), stdout=output, stderr=subprocess.STDOUT, env=self._environment
            )

    def command(self) -> list[str]:
        program = [str(Path(sys.executable).parent / "barnabas")]
        if self._profile_to is not None:
            program = [sys.executable, "-m", "benchmarks.clients.profiled_broker", str(self._profile_to)]
        listen = listeners(self._ports)
        settings = [part for name, value in self._settings.items() for part in ("--set", f"{name}={value}")]
        return [*program, "serve", "--data", str(self._data_dir), "--listen", listen, *settings]

    def process_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def stop(self, timeout: float = 30) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class Broker:
    """A broker under test."""

    def __init__(
        self, name: str, process: Process, log_dir: Path, ports: Mapping[str, int] | None = None
    ) -> None:
        self.name = name
        self.ports = ports or {PLAINTEXT: process.port}
        """Ports by security protocol."""
        self.idle_bytes = 0
        self._process = process
        self._log_dir = log_dir

    @property
    def port(self) -> int:
        return self._process.port

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def at(self, protocol: str) -> "Endpoint":
        return Endpoint(self, protocol)

    def prepare(self) -> None:
        self._process.prepare()

    def launch_and_wait(self, timeout: float = 60) -> float:
        """Start the process; return the seconds until its first ApiVersions response."""
        begin = time.perf_counter()
        self._process.launch()
        while not answers_api_versions("127.0.0.1", self.port):
            if self._process.process_ended() or time.perf_counter() - begin > timeout:
                raise RuntimeError(f"{self.name} did not start; see its output next to {self._log_dir}")
            time.sleep(0.002)
        return time.perf_counter() - begin

    def start(self) -> "Broker":
        self.prepare()
        self.launch_and_wait()
        time.sleep(_IDLE_SECONDS)
        self.idle_bytes = self.resident_bytes()
        return self

    def stop(self) -> None:
        self._process.stop()

    def kill(self) -> None:
        self._process.kill()

    def cpu_seconds(self) -> float:
        return cpu_seconds(self._process.pid)

    def cpu_times(self) -> CpuTimes:
        return cpu_times(self._process.pid)

    def resident_bytes(self) -> int:
        return resident_bytes(self._process.pid)

    def partition_dir(self, topic: str, partition: int) -> Path:
        return self._log_dir / f"{topic}-{partition}"

    def cleaned_upto(self, topic: str) -> int:
        """Offset up to which partition 0 is compacted, from the broker's checkpoint."""
        checkpoint = self._log_dir / "cleaner-offset-checkpoint"
        return noted_offset(checkpoint.read_text(), topic) if checkpoint.exists() else 0

    def log_bytes(self, topic: str, partitions: int) -> int:
        """Size of the topic's logs on disk."""
        dirs = (self.partition_dir(topic, number) for number in range(partitions))
        return sum(path.stat().st_size for folder in dirs for path in folder.glob("*.log"))


@dataclass(frozen=True)
class Endpoint:
    """One listener of a broker: its address, and the CPU time of the broker."""

    broker: Broker
    protocol: str

    @property
    def port(self) -> int:
        return self.broker.ports[self.protocol]

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cpu_seconds(self) -> float:
        return self.broker.cpu_seconds()


def noted_offset(checkpoint: str, topic: str) -> int:
    """Offset of partition 0 in a Kafka checkpoint file (version, count, then topic, partition and offset)."""
    for line in checkpoint.splitlines()[2:]:
        if line.startswith(f"{topic} 0 "):
            return int(line.split()[2])
    return 0


def apache_kafka(
    name: str, data_dir: Path, settings: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> Broker:
    process = ApacheKafka(data_dir, heap=HEAP, settings=settings, flags=BROKER_FLAGS, environment=environment)
    return Broker(name, process, process.log_dir)


def barnabas(
    name: str,
    data_dir: Path,
    settings: Mapping[str, str],
    profile_to: Path | None = None,
    source: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Broker:
    """`source` is the `src` folder of another version."""
    process = BarnabasProcess(data_dir, settings, profile_to, source, environment=environment)
    return Broker(name, process, data_dir)
