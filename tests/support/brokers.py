"""A broker as a separate process (`barnabas serve`), for tests that kill it, and client quotas of an embedded one."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from barnabas.broker.broker import Broker
from barnabas.cluster.deltas import ClientQuotasChanged
from barnabas.security.quotas.filters import QuotaEntity
from barnabas.testing import EmbeddedBroker
from tests.support.programs import free_port
from tests.support.waiting import until

READY = "Barnabas is ready on "
START_SECONDS = 60.0


class _Start:
    """One start of a process, independent of its previous end."""

    def __init__(self) -> None:
        self.serves = False
        self.told = threading.Event()


class BrokerProcess:
    """Keeps its port and folder across restarts. `lines` is its complete output."""

    def __init__(self, data: Path, *settings: str, options: tuple[str, ...] = ()) -> None:
        self.data = data
        self.port = free_port()
        self.lines: list[str] = []
        self._settings = settings
        self._options = options
        self._process: subprocess.Popen[str] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def memory_peak(self) -> int:
        """The most memory that the process has taken so far."""
        status = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024

    def start(self) -> Self:
        command = [sys.executable, "-m", "barnabas", "serve", "--data", str(self.data)]
        command += ["--listen", self.bootstrap_servers, *self._options]
        for setting in self._settings:
            command += ["--set", setting]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        start = _Start()
        threading.Thread(target=self._read, args=(self._process, start), daemon=True).start()
        start.told.wait(START_SECONDS)
        if not start.serves:
            self.kill()
            raise AssertionError("the broker did not start:\n" + "".join(self.lines))
        return self

    def _read(self, process: subprocess.Popen[str], start: _Start) -> None:
        assert process.stdout is not None
        with process.stdout as output:
            for line in output:
                self.lines.append(line)
                if line.startswith(READY):
                    start.serves = True
                    start.told.set()
        start.told.set()  # ended: waiters can stop

    def until_it_says(self, text: str) -> None:
        """Wait for a line with this text, which may follow the client's response."""
        until(
            lambda: any(text in line for line in self.lines),
            lambda: f"the broker has not said {text!r}:\n" + "".join(self.lines),
        )

    def kill(self) -> None:
        """As a power button would: no signal handler runs."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        if self._process is None:
            return 0
        process, self._process = self._process, None
        process.send_signal(number)
        return process.wait(timeout=60)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self.stop()


def set_quotas(broker: EmbeddedBroker, entity: QuotaEntity, **values: float | None) -> None:
    """Set client quotas as AlterClientQuotas does; None removes one. Returns when the broker uses them."""
    running = broker.broker
    asyncio.run_coroutine_threadsafe(changed(running, entity, values), running.loop).result(60)


async def changed(broker: Broker, entity: QuotaEntity, values: Mapping[str, float | None]) -> None:
    await broker.controller.submit(lambda image: ([ClientQuotasChanged(entity, dict(values))], None))


@contextmanager
def quotas(broker: EmbeddedBroker, entity: QuotaEntity, **values: float) -> Iterator[None]:
    set_quotas(broker, entity, **values)
    try:
        yield
    finally:
        set_quotas(broker, entity, **dict.fromkeys(values))
