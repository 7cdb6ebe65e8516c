"""Mirrors from one broker to another: `barnabas mirror run`, and Apache Kafka's MirrorMaker 2."""

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.subjects.brokers import Broker
from benchmarks.subjects.processes import cpu_seconds
from tests.support.kafka.jars import KAFKA_VERSION
from tests.support.programs import PROJECT_ROOT

MIRROR_MAKER_LIBS = PROJECT_ROOT / ".cache" / f"mirror-maker-{KAFKA_VERSION}" / "libs"


def reason_mirror_maker_is_missing() -> str | None:
    if (MIRROR_MAKER_LIBS / f"connect-mirror-{KAFKA_VERSION}.jar").exists():
        return None
    return "MirrorMaker 2 is not installed: run `make mirrormaker`"


class Mirror:
    """A process that mirrors topics until it is stopped."""

    def __init__(self, command: list[str], output: Path) -> None:
        self._command = command
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=subprocess.STDOUT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def check(self) -> None:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"the mirror ended: {self._output.read_text()[-2000:]}")

    def cpu_seconds(self) -> float:
        assert self._process is not None
        return cpu_seconds(self._process.pid)


def barnabas_mirror(source: Broker, target: Broker, topics: str, folder: Path) -> Mirror:
    program = [str(Path(sys.executable).parent / "barnabas"), "mirror", "run"]
    command = [*program, "--from", f"source={source.bootstrap}", "--to", target.bootstrap, "--topics", topics]
    return Mirror(command, folder / "mirror.out")


def mirror_maker(source: Broker, target: Broker, topics: str, folder: Path) -> Mirror:
    """A dedicated mirror as documented, tuned with larger batches and polls."""
    settings = {
        "clusters": "source,target",
        "source.bootstrap.servers": source.bootstrap,
        "target.bootstrap.servers": target.bootstrap,
        "source->target.enabled": "true",
        "source->target.topics": topics,
        "target->source.enabled": "false",
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "tasks.max": "4",
        "emit.heartbeats.enabled": "false",
        "refresh.topics.interval.seconds": "1",
        "sync.topic.acls.enabled": "false",
        "source.consumer.max.poll.records": "5000",
        "source.consumer.fetch.max.bytes": str(8 << 20),
        "target.producer.batch.size": str(256 << 10),
        "target.producer.linger.ms": "5",
        "target.producer.buffer.memory": str(64 << 20),
        **{
            f"{name}.replication.factor": "1"
            for name in (
                "config.storage",
                "offset.storage",
                "status.storage",
                "offset-syncs.topic",
                "checkpoints.topic",
            )
        },
        "heartbeats.topic.replication.factor": "1",
        "replication.factor": "1",
    }
    file = folder / "mm2.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    command = ["java", "-Xms1g", "-Xmx1g", "-cp", f"{MIRROR_MAKER_LIBS}/*"]
    return Mirror([*command, "org.apache.kafka.connect.mirror.MirrorMaker", str(file)], folder / "mm2.out")
