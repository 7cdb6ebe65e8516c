"""Apache Kafka: a broker of one KRaft node, for tests and benchmarks.

with ApacheKafka(tmp_path / "kafka") as kafka:
    kafka.bootstrap_servers
"""

import socket
import struct
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.kafka.tools import java_command, run_tool
from tests.support.programs import free_port

CLUSTER_ID = "barnabas-tests-0000000"  # 22 characters, as Kafka's base64 uuids are

# For short-lived brokers, which would use half of their CPU for recompilation.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
# JVM options of kafka-run-class.sh, for benchmarks: Kafka must be configured well.
BROKER_FLAGS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)


class ApacheKafka:
    """A broker and controller in one process, with a fresh or an existing data folder."""

    def __init__(
        self,
        data_dir: Path,
        port: int = 0,
        heap: str = "1g",
        settings: Mapping[str, str] | None = None,
        flags: tuple[str, ...] = SHORT_LIVED,
        features: Mapping[str, int] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._environment = environment
        self.data_dir = data_dir
        self.port = port or free_port()
        self.log_dir = data_dir / "logs"
        self._flags = (f"-Xms{heap}", f"-Xmx{heap}", *flags)
        self._settings = dict(settings or {})
        self._features = dict(features or {})  # other levels than those of a new cluster
        self._properties = data_dir / "server.properties"
        self._output = data_dir / "server.out"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker has not been started"
        return self._process.pid

    def start(self, timeout: float = 100) -> "ApacheKafka":
        """Formats the folder if it is new, starts the broker and waits until it answers."""
        self.prepare()
        self.launch()
        self.wait_until_ready(timeout)
        return self

    def prepare(self) -> None:
        """Everything that has to be on disk before the broker's process starts."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._write_properties()
        if not (self.log_dir / "meta.properties").exists():
            formatted = ["format", "--config", str(self._properties), "--cluster-id", CLUSTER_ID]
            for name, level in self._features.items():
                formatted += ["--feature", f"{name}={level}"]
            run_tool("kafka.tools.StorageTool", *formatted).check()

    def launch(self) -> None:
        """Starts the process without waiting for it."""
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                java_command("kafka.Kafka", str(self._properties), flags=self._flags),
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
            )

    def wait_until_ready(self, timeout: float = 100) -> None:
        deadline = time.monotonic() + timeout
        while not answers_api_versions("127.0.0.1", self.port):
            self._fail_if(self.process_ended(), "Apache Kafka ended while it started")
            self._fail_if(time.monotonic() > deadline, f"Apache Kafka was not ready after {timeout} s")
            time.sleep(0.02)

    def process_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def stop(self, timeout: float = 30) -> None:
        """An orderly stop; the process is killed if that takes too long."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """As a power cut would do it, but for the page cache."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _fail_if(self, failed: bool, what: str) -> None:
        if failed:
            self.kill()
            raise RuntimeError(f"{what}:\n{self._output.read_text()[-4000:]}")

    def _write_properties(self) -> None:
        controller_port = free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "log.dirs": str(self.log_dir),
            # One node cannot replicate its internal topics, and a test must not wait for a second member.
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self._settings,
        }
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))


# ApiVersions v0: api key, version, correlation id, client id (null); no body.
_API_VERSIONS_REQUEST = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def answers_api_versions(host: str, port: int, timeout: float = 1.0) -> bool:
    """True if a Kafka broker answers ApiVersions there."""
    try:
        with socket.create_connection((host, port), timeout) as connection:
            connection.sendall(_API_VERSIONS_REQUEST)
            return len(connection.recv(8)) > 0
    except OSError:
        return False
