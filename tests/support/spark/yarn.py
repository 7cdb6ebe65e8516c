"""YARN on loopback: a ResourceManager and a NodeManager as processes, with local disks as file system."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from xml.sax.saxutils import escape

import pyspark

from tests.support.programs import descendants, free_port
from tests.support.spark.jars import yarn_jars
from tests.support.waiting import still_running, until

RESOURCE_MANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
APPLICATION_MASTER = "org.apache.spark.deploy.yarn.ApplicationMaster"
NODE_MANAGER = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
SPARK_HOME = Path(pyspark.__file__).parent
SECONDS = 300.0
LOOPBACK = "127.0.0.1"
LISTENING = "0A"  # in /proc/net/tcp
SERVICES = ("", ".scheduler", ".resource-tracker", ".admin", ".webapp")
NODE_SERVICES = ("", ".localizer", ".webapp", ".collector-service")


class Yarn:
    def __init__(self, folder: Path, memory: int = 4000) -> None:
        self.folder = folder
        self.configuration = folder / "conf"
        self._memory = memory
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Yarn:
        self.configuration.mkdir(parents=True)
        (self.configuration / "yarn-site.xml").write_text(_xml(self._settings()))
        (self.configuration / "core-site.xml").write_text(_xml({"fs.defaultFS": "file:///"}))
        (self.configuration / "log4j2.properties").write_text(LOGGING)
        self._run("manager", RESOURCE_MANAGER)
        self._await("manager", "Transitioned to active state")
        self._run("node", NODE_MANAGER)
        self._await("node", "Registered with ResourceManager")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self._processes):
            process.terminate()  # the node ends its containers
        for process in self._processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def drivers(self) -> list[int]:
        """Processes of drivers on the cluster."""
        lines = {number: _command_line(number) for number in self._members()}
        return [
            number
            for number, words in lines.items()
            if words[0].endswith("java") and APPLICATION_MASTER in words
        ]

    def open_addresses(self) -> set[str]:
        """Addresses, in hexadecimal, on which the cluster and the containers on it listen."""
        sockets = {link for number in self._members() for link in _open_files(number)}
        tables = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
        listening = [fields for table in tables for line in table if (fields := line.split())[3] == LISTENING]
        return {fields[1].split(":")[0] for fields in listening if f"socket:[{fields[9]}]" in sockets}

    def _members(self) -> list[int]:
        return [number for process in self._processes for number in (process.pid, *descendants(process.pid))]

    def container_logs(self) -> str:
        return "\n".join(
            f"== {path}\n{path.read_text(errors='replace')[-3000:]}"
            for path in sorted((self.folder / "logs").rglob("std*"))
        )

    def _settings(self) -> dict[str, str]:
        manager = {f"yarn.resourcemanager{name}.address": f"{LOOPBACK}:{free_port()}" for name in SERVICES}
        node = {f"yarn.nodemanager{name}.address": f"{LOOPBACK}:{free_port()}" for name in NODE_SERVICES}
        return {
            **manager,
            **node,
            "yarn.resourcemanager.scheduler.class": (
                "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler"
            ),
            "yarn.scheduler.minimum-allocation-mb": "128",
            "yarn.nodemanager.resource.memory-mb": str(self._memory),
            "yarn.nodemanager.resource.cpu-vcores": "4",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.local-dirs": str(self.folder / "local"),
            "yarn.nodemanager.log-dirs": str(self.folder / "logs"),
            "yarn.nodemanager.delete.debug-delay-sec": "600",
            "yarn.nodemanager.disk-health-checker.enable": "false",
            "yarn.nodemanager.env-whitelist": "JAVA_HOME,PATH,SPARK_LOCAL_IP",  # so that drivers and executors
            # in containers listen on loopback, too
        }

    def _run(self, name: str, main: str) -> None:
        path = ":".join([str(self.configuration), *map(str, yarn_jars()), f"{SPARK_HOME}/jars/*"])
        command = [
            "java",
            "-Xmx256m",
            "-XX:TieredStopAtLevel=1",
            f"-Dyarn.log.dir={self.folder}",
            "-cp",
            path,
            main,
        ]
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.folder),
            "SPARK_LOCAL_IP": LOOPBACK,
            **{name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ},
        }
        with (self.folder / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=self.folder)
            )

    def _await(self, name: str, line: str) -> None:
        path = self.folder / f"{name}.log"

        def text() -> str:
            return path.read_text(errors="replace")

        alive = still_running(self._processes[-1], lambda: text()[-3000:])
        until(lambda: line in text(), lambda: text()[-3000:], SECONDS, meanwhile=alive)


LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d %p %c{1}: %m%n
"""


def _command_line(process: int) -> list[str]:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().split("\0")
    except OSError:  # it has ended
        return [""]


def _open_files(process: int) -> list[str]:
    found = []
    with suppress(OSError):  # it has ended
        for file in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):
                found.append(os.readlink(file))
    return found


def _xml(settings: dict[str, str]) -> str:
    lines = (
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    )
    return f"<configuration>{''.join(lines)}</configuration>"
