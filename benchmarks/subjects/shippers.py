"""Log shippers that bring the lines of a file into a topic: ours, Apache Flume, rsyslog. Each has a separate folder."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from benchmarks.subjects.processes import cpu_seconds
from tests.support.programs import PROJECT_ROOT, SERVERS

FLUME = Path(os.environ.get("FLUME_LIBS") or PROJECT_ROOT / ".cache/flume-1.11.0/libs")
HEAP = "-Xmx512m"
_TIMEOUT_SECONDS = 300.0
_LOOK_SECONDS = 0.05


class Shipped(NamedTuple):
    seconds: float
    cpu: float
    peak_bytes: int


def flume_is_missing() -> str | None:
    if shutil.which("java") is None or not any(FLUME.glob("flume-ng-node-*.jar")):
        return f"no Apache Flume in {FLUME}: run `make flume`, or set FLUME_LIBS"
    return None


def rsyslog_is_missing() -> str | None:
    if (
        not any(Path("/usr/lib").glob("*/rsyslog/omkafka.so"))
        or shutil.which("rsyslogd", path=SERVERS) is None
    ):
        return "rsyslog or its omkafka is not installed (make flume)"
    return None


def barnabas_agent(folder: Path, log: Path, bootstrap: str, topic: str, lines: int) -> Shipped:
    """Run the agent until it exits, when all records are committed."""
    command = [str(Path(sys.executable).parent / "barnabas"), "ingest", "files", str(log), "--topic", topic]
    began = time.perf_counter()
    process = _launch([*command, "--exit-at-end", "-b", bootstrap], folder)
    peak = 0  # sampled: the kernel's figure for a child starts with the memory of its parent
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        peak = max(peak, _peak(process.pid))
        time.sleep(_LOOK_SECONDS)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - began
    output = (folder / "output").read_text()
    if process.returncode or f"{lines:,} records" not in output:
        raise RuntimeError(f"the agent failed:\n{output}")
    return Shipped(seconds, usage.ru_utime + usage.ru_stime, peak)


def flume(folder: Path, log: Path, bootstrap: str, topic: str, lines: int) -> Shipped:
    """Flume with a taildir source, a memory channel and the Kafka sink."""
    settings = {
        "sources": "s", "channels": "c", "sinks": "k",
        "sources.s.type": "TAILDIR", "sources.s.filegroups": "f", "sources.s.filegroups.f": log,
        "sources.s.positionFile": folder / "positions.json", "sources.s.batchSize": 1000,
        "sources.s.maxBatchCount": 100, "sources.s.channels": "c",
        "channels.c.type": "memory", "channels.c.capacity": 100_000, "channels.c.transactionCapacity": 10_000,
        "sinks.k.type": "org.apache.flume.sink.kafka.KafkaSink", "sinks.k.channel": "c",
        "sinks.k.kafka.topic": topic, "sinks.k.kafka.bootstrap.servers": bootstrap, "sinks.k.flumeBatchSize": 1000,
        "sinks.k.kafka.producer.acks": "all", "sinks.k.kafka.producer.linger.ms": 5,
    }  # fmt: skip
    file = folder / "flume.properties"
    file.write_text("".join(f"a.{name} = {value}\n" for name, value in settings.items()))
    command = ["java", HEAP, "-cp", f"{FLUME}/*", "org.apache.flume.node.Application"]
    command += ["-n", "a", "-f", str(file), "--no-reload-conf"]
    return _until_there(command, folder, bootstrap, topic, lines)


def rsyslog(folder: Path, log: Path, bootstrap: str, topic: str, lines: int) -> Shipped:
    file = folder / "rsyslog.conf"
    file.write_text(
        f"""
global(workDirectory="{folder}")
module(load="imfile")
module(load="omkafka")
main_queue(queue.type="LinkedList" queue.size="100000" queue.dequeueBatchSize="1024")
template(name="line" type="string" string="%msg%")
input(type="imfile" File="{log}" Tag="bench" freshStartTail="off" addMetadata="off" PersistStateInterval="10000")
action(type="omkafka" topic="{topic}" broker=["{bootstrap}"] template="line" partitions.auto="on"
       confParam=["acks=all", "linger.ms=5", "queue.buffering.max.messages=500000"])
"""
    )
    program = shutil.which("rsyslogd", path=SERVERS) or "rsyslogd"
    command = [program, "-n", "-f", str(file), "-i", str(folder / "pid")]
    return _until_there(command, folder, bootstrap, topic, lines)


Shipper = Callable[[Path, Path, str, str, int], Shipped]


def _launch(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "output").open("wb") as output:
        return subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)


def _until_there(command: list[str], folder: Path, bootstrap: str, topic: str, lines: int) -> Shipped:
    """Run a shipper that does not exit, until the topic has all lines."""
    began = time.perf_counter()
    process = _launch(command, folder)
    try:
        _wait_for(process, bootstrap, topic, lines, folder)
        return Shipped(time.perf_counter() - began, cpu_seconds(process.pid), _peak(process.pid))
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(process: subprocess.Popen[bytes], bootstrap: str, topic: str, lines: int, folder: Path) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench-look", "log_level": 3})
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    try:
        while consumer.get_watermark_offsets(Place(topic, 0), timeout=30)[1] < lines:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"it did not bring all lines:\n{(folder / 'output').read_text()[-2000:]}")
            time.sleep(_LOOK_SECONDS)
    finally:
        consumer.close()


def _peak(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) for line in status if line.startswith("VmHWM")), 0) * 1024
