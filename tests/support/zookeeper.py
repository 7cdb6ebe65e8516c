"""ZooKeeper for tests: availability, and an ensemble of several servers."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import Self

import pytest

from barnabas.cluster.zookeeper.jars import NoZooKeeperError, find_jars
from barnabas.cluster.zookeeper.process import ZooKeeperProcess, find_java, lasting_port
from tests.support.programs import in_ci
from tests.support.waiting import until

ENSEMBLE_SECONDS = 60.0
LIMITS = {"initLimit": "20", "syncLimit": "6"}  # in ticks of half a second


def require_zookeeper() -> None:
    """Skip where there is no Java or no jars; in CI that is a failure."""
    try:
        find_java()
        find_jars()
    except NoZooKeeperError as missing:
        if in_ci():
            pytest.fail(f"CI must not skip this: {missing}", pytrace=False)
        pytest.skip(str(missing))


class EnsembleServer(ZooKeeperProcess):
    """One of several servers that elect a leader among themselves."""

    main_class = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

    def __init__(self, folder: Path, number: int, servers: dict[str, str]) -> None:
        super().__init__(folder, settings={**LIMITS, **servers}, java_flags=("-Xmx64m",))
        data = folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        (data / "myid").write_text(f"{number}\n")

    @property
    def mode(self) -> str:
        """leader or follower; empty while it does not serve."""
        try:
            with socket.create_connection((self.host, self.port), 1.0) as connection:
                connection.sendall(b"srvr")
                answer = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
        except OSError:
            return ""
        return answer.partition("Mode: ")[2].partition("\n")[0]

    def pause(self) -> None:
        """Isolate it: its connections stay open without traffic."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        if self.is_running:
            os.kill(self.pid, signal.SIGCONT)


class Ensemble:
    """Servers on one machine; `start` and `stop` as those of a single one."""

    def __init__(self, folder: Path, count: int = 3) -> None:
        numbers = range(1, count + 1)
        servers = {
            f"server.{number}": f"127.0.0.1:{lasting_port()}:{lasting_port()}:participant"
            for number in numbers
        }
        self.servers = {
            number: EnsembleServer(folder / f"zookeeper-{number}", number, servers) for number in numbers
        }

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [(server.host, server.port) for server in self.servers.values()]

    def start(self) -> Self:
        for server in self.servers.values():
            if not server.is_running:
                server.launch()
        for server in self.servers.values():
            server.wait_until_ready()
        return self

    def stop(self) -> None:
        self.make_whole(start=False)
        for server in self.servers.values():
            server.stop()

    def make_whole(self, *, start: bool = True) -> None:
        for server in self.servers.values():
            server.resume()
        if start:
            self.start()

    def one(self, mode: str) -> EnsembleServer:
        """A server that is the leader, or a follower, by now."""

        def found() -> list[EnsembleServer]:
            return [each for each in self.servers.values() if each.is_running and each.mode == mode]

        return until(found, f"no server of the ensemble is {mode}", ENSEMBLE_SECONDS)[0]
