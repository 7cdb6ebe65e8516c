"""RabbitMQ for rows about queues: one node of the Debian package, with its own folder, ports and epmd.

The system service that the package installs is neither used nor changed.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.subjects.processes import cpu_seconds, family
from tests.support.programs import free_port

# The script in the package: the one in PATH would switch to the service user.
_SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_START_SECONDS, _STOP_SECONDS = 90.0, 30.0
_PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"


def reason_it_is_missing() -> str | None:
    if not _SERVER.exists():
        return "RabbitMQ is not installed (apt-get install rabbitmq-server)"
    if shutil.which("epmd") is None:
        return "RabbitMQ is installed, but epmd (erlang-base) is not"
    return None


class RabbitMq:
    """A node with its files in `folder`; `start` returns when it accepts connections."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._folder = folder
        self._name_service_port = free_port()
        self._node_port = free_port()
        self._name_service: subprocess.Popen[bytes] | None = None
        self._node: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> "RabbitMq":
        self._folder.mkdir(parents=True)
        (self._folder / "plugins").write_text("[].\n")
        with (self._folder / "output").open("ab") as output:
            # The node would otherwise start epmd itself and leave it running.
            self._name_service = subprocess.Popen(
                ["epmd", "-port", str(self._name_service_port), "-address", "127.0.0.1"],
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            self._node = subprocess.Popen(
                [str(_SERVER)], env=self._environment(), stdout=output, stderr=subprocess.STDOUT
            )
        self._wait_until_ready(self._node)
        return self

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(self._folder),  # for the Erlang cookie
            "ERL_EPMD_PORT": str(self._name_service_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"bench{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._node_port),
            "RABBITMQ_MNESIA_BASE": str(self._folder / "data"),
            "RABBITMQ_LOG_BASE": str(self._folder / "log"),
            "RABBITMQ_CONFIG_FILE": str(self._folder / "none"),
            "RABBITMQ_CONF_ENV_FILE": str(self._folder / "none"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._folder / "plugins"),
        }

    def _wait_until_ready(self, node: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if node.poll() is not None or time.monotonic() > deadline:
                self.stop()
                output = (self._folder / "output").read_text(errors="replace").strip()[-400:]
                raise RuntimeError(f"RabbitMQ did not start: {output}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        """True if the port speaks AMQP, not only accepts connections."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as attempt:
            attempt.settimeout(5)
            attempt.sendall(_PROTOCOL_HEADER)
            return attempt.recv(1) == b"\x01"
        return False

    def cpu_seconds(self) -> float:
        assert self._node is not None, "RabbitMQ has not been started"
        return cpu_seconds(self._node.pid)

    def stop(self) -> None:
        for process in self._processes():
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                for pid in list(family(process.pid)):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, 9)
                process.wait()
        self._node = self._name_service = None

    def _processes(self) -> Iterator[subprocess.Popen[bytes]]:
        if self._node is not None:
            yield self._node
        if self._name_service is not None:
            yield self._name_service
