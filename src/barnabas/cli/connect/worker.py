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
from barnabas.client import Client, ClientError, ConnectorRequest, ConnectorRequests
from barnabas.client.status import REPORT_SECONDS, ProcessStatus, StatusReporter
from barnabas.common.errors import KafkaError
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
        requests = _Requested(client, worker)
        while not stopping.is_set():
            worker.check()
            await requests.poll()
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


class _Requested:
    """Carries out requests of `__barnabas_connect` newer than this process; the runtime itself keeps paused states."""

    def __init__(self, client: Client, worker: ConnectWorker) -> None:
        self._requests = ConnectorRequests(client)
        self._worker = worker
        self._since = time.time_ns() // 1_000_000
        self._done: set[str] = set()
        self._was_refused = False

    async def poll(self) -> None:
        try:
            newest = await self._requests.newest()
            self._was_refused = False
        except (KafkaError, ClientError, TimeoutError) as error:
            if not self._was_refused:
                logger.warning("requests to connectors are not read: %s", error or "no answer in time")
            self._was_refused, newest = True, {}
        for name, request in newest.items():
            if request.at >= self._since and request.id not in self._done:
                self._done.add(request.id)
                self._carry_out(name, request)

    def _carry_out(self, name: str, request: ConnectorRequest) -> None:
        try:
            self._worker.request(name, request.request)
        except OSError as error:
            logger.warning("%s of %s failed: %s", request.request, name, error)
        else:
            logger.info("%s: %s was requested by %r", name, request.request, request.by[:100])


def _poll(worker: ConnectWorker) -> list[ProcessStatus]:
    """Status of all connectors; empty while the runtime rebalances and answers 409."""
    try:
        return worker.look(time.monotonic())
    except OSError as error:
        logger.warning("Kafka Connect does not answer: %s", error)
        return []
