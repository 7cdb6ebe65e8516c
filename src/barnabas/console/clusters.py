"""One cluster that the console shows: its connections, and the engines that work on it."""

from __future__ import annotations

from pathlib import Path

from barnabas.client.cluster import Client
from barnabas.console.settings import ClusterSettings, ConsoleSettings

CLIENT_ID = "barnabas-console"


class Cluster:
    def __init__(self, settings: ClusterSettings, console: ConsoleSettings) -> None:
        self.settings = settings
        self.name = settings.name
        self.folder: Path = console.data / settings.name
        self.client = Client(settings.bootstrap, client_id=CLIENT_ID, security=settings.security)

    async def start(self) -> None:
        """Never waits for the cluster: pages say that it is away."""

    async def stop(self) -> None:
        await self.client.close()
