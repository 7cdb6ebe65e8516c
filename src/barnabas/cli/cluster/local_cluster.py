"""ZooKeeper and brokers as child processes of one command: `barnabas cluster start`."""

from __future__ import annotations

import contextlib
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from barnabas.client import Address
from barnabas.cluster.zookeeper import ZooKeeperProcess
from barnabas.common.files import FOLDER_MODE

READY = "Barnabas is ready on "
START_SECONDS = 60.0
STOP_SECONDS = 30.0
POLL_SECONDS = 0.5


class BrokerDidNotStartError(RuntimeError):
    """The message has the broker's last lines of output."""


class BrokerChild:
    """`barnabas serve` with its output in a file."""

    def __init__(self, node_id: int, folder: Path, arguments: list[str]) -> None:
        self.node_id = node_id
        self.address = ""
        self.output = folder / f"broker-{node_id}.log"
        self.exit_reported = False
        self._ready = threading.Event()
        self._log = self.output.open("ab")
        self._arguments = arguments
        command = [sys.executable, "-m", "barnabas", "serve", *arguments]
        # In a separate process group: Ctrl-C reaches only the command, which then stops the brokers.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._log, self._process.stdout as output:
            for line in output:
                self._log.write(line)
                self._log.flush()
                text = line.decode(errors="replace")
                if text.startswith(READY):
                    self.address = text.removeprefix(READY).strip()
                    self._ready.set()
        self._ready.set()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    @property
    def restart_command(self) -> str:
        """Starts the broker again, on the port that it had."""
        position = self._arguments.index("--listen") + 1
        listen = self.address or self._arguments[position]
        return shlex.join(
            ["barnabas", "serve", *self._arguments[:position], listen, *self._arguments[position + 1 :]]
        )

    def wait_until_ready(self) -> None:
        self._ready.wait(START_SECONDS)
        if not self.address:
            self.end()
            tail_lines = self.output.read_text(errors="replace").strip().splitlines()[-5:]
            raise BrokerDidNotStartError(f"broker {self.node_id} did not start:\n" + "\n".join(tail_lines))

    def ask_to_stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def end(self) -> None:
        self.ask_to_stop()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class LocalCluster:
    """Brokers with node ids from 1 on, consecutive ports and one subfolder of `folder` each."""

    def __init__(self, brokers: int, folder: Path, host: str, port: int, settings: Mapping[str, str]) -> None:
        self.zookeeper = ZooKeeperProcess(folder / "zookeeper")
        self.brokers: list[BrokerChild] = []
        self._count = brokers
        self._folder = folder
        self._host = host
        self._port = port
        self._settings = {**_replicated(brokers), **settings}

    def __enter__(self) -> Self:
        self._folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        try:
            self.zookeeper.start()
            self.brokers = [self._start(node_id) for node_id in range(1, self._count + 1)]
            for broker in self.brokers:
                broker.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    def _start(self, node_id: int) -> BrokerChild:
        port = self._port + node_id - 1 if self._port else 0
        arguments = ["--node-id", str(node_id), "--zookeeper", f"{self.zookeeper.address}/barnabas"]
        arguments += ["--data", str(self._folder / f"broker-{node_id}")]
        arguments += ["--listen", str(Address(self._host, port))]
        for name, value in self._settings.items():
            arguments += ["--set", f"{name}={value}"]
        return BrokerChild(node_id, self._folder, arguments)

    def report_exits(self, report: Callable[[BrokerChild], None]) -> bool:
        """Report each exited broker once. Returns True while a broker runs."""
        for broker in self.brokers:
            if broker.exit_code is not None and not broker.exit_reported:
                broker.exit_reported = True
                report(broker)
        return any(broker.exit_code is None for broker in self.brokers)

    def stop(self) -> None:
        """Stop the brokers one by one, so that each can hand over its leaders; then ZooKeeper."""
        for broker in self.brokers:
            broker.end()
        self.zookeeper.stop()


def _replicated(brokers: int) -> dict[str, str]:
    replicas = str(min(3, brokers))
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": str(min(2, brokers)),
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": str(min(2, brokers)),
    }


class StopSignal:
    """Waits for SIGINT or SIGTERM. The handlers are installed by the constructor, before the command reports ready."""

    def __init__(self) -> None:
        self._event = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._asked)

    def _asked(self, number: int, frame: FrameType | None) -> None:
        self._event.set()

    def wait(self, is_running: Callable[[], bool]) -> None:
        """Return after a signal, or when `is_running` returns False."""
        while is_running() and not self._event.wait(POLL_SECONDS):
            pass
