"""Runs Apache's Connect runtime for `barnabas connect worker`, and reports the status of its connectors."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
from collections.abc import Mapping

from barnabas.cli.options import command_security
from barnabas.cli.output import say
from barnabas.client import Client
from barnabas.client.status import REPORT_SECONDS, ProcessStatus, StatusReporter
from barnabas.connect import BASIC_AUTH_JAR, USER, ConnectWorker, WorkerSettings, running_worker

logger = logging.getLogger(__name__)


def run_worker(settings: WorkerSettings, configs: Mapping[str, Mapping[str, str]]) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s")
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    say(f"Starting Apache's Connect runtime with the plugins of {settings.plugins}.")
    with running_worker(settings) as worker:
        worker.await_start(stopping.is_set)
        for name, config in configs.items():
            worker.submit(name, config)
        if settings.is_protected:
            say(
                f"Kafka Connect answers at {settings.url} (user {USER}, password {settings.password}). Ctrl-C stops it."
            )
        else:
            logger.warning(
                "every user of this machine can change connectors at %s: put %s into %s to protect it",
                *(settings.url, BASIC_AUTH_JAR, settings.libs),
            )
            say(f"Kafka Connect answers at {settings.url}. Ctrl-C stops it.")
        asyncio.run(_watch(settings, worker, stopping))


async def _watch(settings: WorkerSettings, worker: ConnectWorker, stopping: threading.Event) -> None:
    async with Client(settings.bootstrap, client_id=settings.group, security=command_security()) as client:
        reporters: dict[str, _Reported] = {}
        while not stopping.is_set():
            worker.check()
            for status in _poll(worker):
                one = reporters.setdefault(status.name, _Reported(client, status))
                await one.report(status)
            await asyncio.to_thread(stopping.wait, REPORT_SECONDS)
        for one in reporters.values():
            await one.reporter.report("stopped")


class _Reported:
    """A connector of the runtime and its newest status."""

    def __init__(self, client: Client, status: ProcessStatus) -> None:
        self._status = status
        self.reporter = StatusReporter(client, lambda: self._status)

    async def report(self, status: ProcessStatus) -> None:
        self._status = status
        await self.reporter.report()


def _poll(worker: ConnectWorker) -> list[ProcessStatus]:
    """Status of all connectors; empty while the runtime rebalances and answers 409."""
    try:
        return worker.look(time.monotonic())
    except OSError as error:
        logger.warning("Kafka Connect does not answer: %s", error)
        return []
