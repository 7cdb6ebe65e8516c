"""A real HDFS on loopback: a NameNode and several DataNodes as processes."""

import os
import socket
import subprocess
from pathlib import Path
from xml.sax.saxutils import escape

from tests.support.programs import PROJECT_ROOT, free_port
from tests.support.spark.jars import hdfs_jars
from tests.support.waiting import retry

NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"


class Hdfs:
    def __init__(self, folder: Path, data_nodes: int = 2) -> None:
        self._folder = folder
        self.url = f"hdfs://127.0.0.1:{free_port()}"
        self.data_nodes: list[subprocess.Popen[bytes]] = []
        self._name_node: subprocess.Popen[bytes] | None = None
        self._count = data_nodes

    def __enter__(self) -> "Hdfs":
        self._run(NAME_NODE, "name", "-format", "-nonInteractive").wait(120)
        self._name_node = self._run(NAME_NODE, "name")
        self._answers(int(self.url.rpartition(":")[2]))
        self.data_nodes = [self._run(DATA_NODE, f"data-{number}") for number in range(self._count)]
        return self

    def __exit__(self, *_: object) -> None:
        for process in [*self.data_nodes, *([self._name_node] if self._name_node else [])]:
            process.kill()
            process.wait()

    def client_settings(self) -> dict[str, str]:
        return {
            "dfs.replication": str(self._count),
            # With two nodes there is none to put in the place of one that was killed.
            "dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER",
            "dfs.client.use.datanode.hostname": "false",
        }

    def _settings(self, name: str) -> dict[str, str]:
        nowhere = "127.0.0.1:0"
        return {
            **self.client_settings(),
            "fs.defaultFS": self.url,
            "dfs.namenode.name.dir": f"file://{self._folder}/{name}/names",
            "dfs.datanode.data.dir": f"file://{self._folder}/{name}/blocks",
            "dfs.namenode.http-address": nowhere,
            "dfs.datanode.address": nowhere,
            "dfs.datanode.http.address": nowhere,
            "dfs.datanode.ipc.address": nowhere,
            "dfs.permissions.enabled": "false",
            "dfs.namenode.safemode.threshold-pct": "0",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.heartbeat.interval": "1",
        }

    def _run(self, main: str, name: str, *arguments: str) -> "subprocess.Popen[bytes]":
        home = self._folder / name
        home.mkdir(parents=True, exist_ok=True)
        for site in ("core-site.xml", "hdfs-site.xml"):
            (home / site).write_text(_xml(self._settings(name)))
        import pyspark

        jars = os.path.join(os.path.dirname(pyspark.__file__), "jars", "*")
        path = ":".join([str(home), *map(str, hdfs_jars()), jars])
        with (home / "log").open("ab") as log:
            command = ["java", "-Xmx256m", "-cp", path, main, *arguments]
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=PROJECT_ROOT)

    def _answers(self, port: int) -> None:
        log = self._folder / "name" / "log"
        retry(
            lambda: socket.create_connection(("127.0.0.1", port), 1).close(),
            OSError,
            lambda: log.read_text()[-4000:],
            120,
        )


def _xml(settings: dict[str, str]) -> str:
    lines = (
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    )
    return f"<configuration>{''.join(lines)}</configuration>"
