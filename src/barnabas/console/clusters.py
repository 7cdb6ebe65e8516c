"""One cluster that the console shows: its connections, and the engines that work on it."""

from __future__ import annotations

from pathlib import Path

from barnabas.client.cluster import Client
from barnabas.console.logs.service import LogService
from barnabas.console.settings import ClusterSettings, ConsoleSettings
from barnabas.console.statuses import StatusBoard

CLIENT_ID = "barnabas-console"


class Cluster:
    def __init__(self, settings: ClusterSettings, console: ConsoleSettings) -> None:
        self.settings = settings
        self.name = settings.name
        self.folder: Path = console.data / settings.name
        self.client = Client(settings.bootstrap, client_id=CLIENT_ID, security=settings.security)
        self.statuses = StatusBoard(self.client)
        self.logs = LogService(self.client, self.folder / "logs", settings.logs, self.statuses)

    async def start(self) -> None:
        """Never waits for the cluster: pages say that it is away."""
        self.statuses.start()
        self.logs.start()

    async def stop(self) -> None:
        await self.logs.close()
        await self.statuses.close()
        await self.client.close()
