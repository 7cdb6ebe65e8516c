"""Log of the shop's services, brought into the topic by an agent: `barnabas ingest files`, in a thread."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

from barnabas.client.cluster import Client
from barnabas.client.status import StatusReporter
from barnabas.services.ingest.agent import Agent
from barnabas.services.ingest.files.source import FilesSettings, FilesSource
from barnabas.services.ingest.metrics import status_of

AGENT = "demo"


class ServiceLog:
    """`write` adds a line; `delivered` counts the lines in the topic, each exactly once."""

    def __init__(self, servers: str, topic: str, folder: Path) -> None:
        self.topic = topic
        self._servers = servers
        self._path = folder / "services.log"
        self._written = 0
        settings = FilesSettings([str(self._path)], topic, "shop", f"{topic}.dead-letters")
        self._source = FilesSource("files", settings)
        self._agent: Agent | None = None
        self._failure: Exception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agent", daemon=True)

    def start(self) -> None:
        self._file = self._path.open("ab", buffering=64 * 1024)
        self._thread.start()
        self._ready.wait()

    def write(self, line: bytes) -> None:
        self._file.write(line + b"\n")
        self._written += 1

    def flush(self) -> None:
        """Make the written lines visible to the agent."""
        self._file.flush()

    @property
    def delivered(self) -> int:
        return self._agent.counts.records if self._agent is not None else 0

    def finish(self, patience: float) -> None:
        """Wait until all lines are in the topic; raise RuntimeError if that takes too long."""
        self.flush()
        deadline = time.monotonic() + patience
        while self.delivered < self._written:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise RuntimeError(
                    f"the agent did not read the log of the services: {self._failure or 'no answer'}"
                )
            time.sleep(0.02)

    def close(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
            self._file.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._read())
        except Exception as error:  # reported by finish()
            self._failure = error
        finally:
            self._ready.set()

    async def _read(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with Client(self._servers, client_id="demo-agent") as client:
            self._agent = Agent(client, AGENT, [self._source])
            self._ready.set()
            agent = self._agent
            reporting = asyncio.create_task(StatusReporter(client, lambda: status_of(agent)).run())
            try:
                await agent.run(self._stop)
            finally:
                reporting.cancel()
                await asyncio.gather(reporting, return_exceptions=True)
