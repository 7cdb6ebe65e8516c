"""Spark's standalone cluster on loopback: a master and workers as processes."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from types import TracebackType

import pyspark

from tests.support.programs import free_port
from tests.support.waiting import still_running, until

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
SPARK_HOME = Path(pyspark.__file__).parent
STARTUP_SECONDS = 120.0


class StandaloneCluster:
    """Executors have one core and `memory` each, and the variables in `environment`.

    Workers are on separate hosts: Spark runs the two attempts of a speculative task on different ones.
    """

    def __init__(
        self, folder: Path, workers: int = 2, memory: str = "1g", environment: dict[str, str] | None = None
    ) -> None:
        self._folder = folder
        self._count = workers
        self._memory = memory
        self._environment = environment or {}
        self.url = f"spark://127.0.0.1:{free_port()}"
        self.master: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> StandaloneCluster:
        port = self.url.rpartition(":")[2]
        self.master = self._run("master", "127.0.0.1", MASTER, "--port", port)
        self._await("master", self.master, "Successfully started service 'sparkMaster'")
        for number in range(self._count):
            folder = self._folder / f"worker-{number}"
            arguments = ("-c", "1", "-m", self._memory, "-d", str(folder), self.url)
            self.workers.append(self._run(folder.name, f"127.0.0.{number + 1}", WORKER, *arguments))
        for number, worker in enumerate(self.workers):
            self._await(f"worker-{number}", worker, "Successfully registered with master")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in [*self.workers, *([self.master] if self.master else [])]:
            process.send_signal(signal.SIGCONT)
            process.terminate()  # workers end their executors
        for process in [*self.workers, *([self.master] if self.master else [])]:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def log_of(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def _run(self, name: str, host: str, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        self._folder.mkdir(parents=True, exist_ok=True)
        environment = {
            "PATH": "/usr/bin:/bin",  # no virtual environment
            "HOME": str(self._folder),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_SCALA_VERSION": "2.13",  # as bin/spark-class sets it
            "SPARK_LOCAL_IP": host,
            **{name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ},
            **self._environment,
        }
        command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{SPARK_HOME}/jars/*", main]
        command += ["--host", host, "--webui-port", "0", *arguments]
        with (self._folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=self._folder)

    def _await(self, name: str, process: subprocess.Popen[bytes], line: str) -> None:
        until(
            lambda: line in self.log_of(name),
            f"no line {line!r}",
            STARTUP_SECONDS,
            meanwhile=still_running(process, lambda: self.log_of(name)[-2000:]),
        )
