"""The object store of a tiered cluster: versitygw as a process behind a proxy; a folder where it is not installed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

from barnabas.cluster.zookeeper.process import lasting_port
from barnabas.tiering.stores.opening import open_store
from barnabas.tiering.stores.store import ObjectStore
from tests.chaos.links import Links
from tests.support.programs import versitygw
from tests.support.tiering.stores import BUCKET, SECRET
from tests.support.waiting import until

_EVERYBODY = 0  # the source of all connections to the store


class ChaosStore:
    """`is_process`: it can be killed, paused and slowed down. A folder cannot."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "store"
        (self._folder / BUCKET).mkdir(parents=True)
        self._program = versitygw()
        self._process: subprocess.Popen[bytes] | None = None
        self._port = lasting_port()
        self._links = Links(("127.0.0.1", self._port), source=_EVERYBODY)
        self._output = folder / "versitygw.log"
        if self.is_process:
            self.start()

    @property
    def is_process(self) -> bool:
        return self._program is not None

    @property
    def name(self) -> str:
        return "versitygw" if self.is_process else "a folder (versitygw is not installed)"

    @property
    def url(self) -> str:
        return f"s3://{BUCKET}/chaos" if self.is_process else f"file://{self._folder}"

    @property
    def options(self) -> dict[str, str]:
        if not self.is_process:
            return {}
        return {
            "endpoint": f"http://127.0.0.1:{self._links.port}",
            "region": "us-east-1",
            "access_key_id": "tests",
            "secret_access_key": SECRET,
        }

    def settings(self) -> dict[str, str]:
        """Broker settings with short intervals."""
        return {
            "remote.log.storage.system.enable": "true",
            "barnabas.remote.storage.url": self.url,
            **{f"rsm.config.{name}": value for name, value in self.options.items()},
            "remote.log.manager.task.interval.ms": "500",
            "log.retention.check.interval.ms": "1000",
            "barnabas.remote.cache.bytes": "200000",
        }

    def open(self) -> ObjectStore:
        return open_store(self.url, self.options)

    # -- what happens to it ---------------------------------------------------------------------------

    def start(self) -> None:
        assert self._program is not None
        command = [self._program, "--port", f"127.0.0.1:{self._port}", "--quiet", "posix", str(self._folder)]
        secrets = {"ROOT_ACCESS_KEY": "tests", "ROOT_SECRET_KEY": SECRET}
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(command, env=os.environ | secrets, stdout=output, stderr=output)
        until(self._listens, "versitygw listens")

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), 1).close()
        except OSError:
            return False
        return True

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def slow_down(self, seconds: float) -> None:
        """Delay requests and responses."""
        self._links.delay(_EVERYBODY, seconds)

    def make_whole(self) -> None:
        self._links.heal()
        if self._process is not None and self._process.poll() is not None:
            self.start()
        elif self._process is not None:
            self.resume()

    def close(self) -> None:
        if self._process is not None:
            self.kill()
        self._links.close()
