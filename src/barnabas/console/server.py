"""A console that runs: clusters, gate and HTTP, put together.

async with ConsoleServer(ConsoleSettings((ClusterSettings("default", "127.0.0.1:9092"),))) as console:
    console.url
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from barnabas.client.addresses import Address
from barnabas.console.app import ConsoleApp
from barnabas.console.auditing import NoAudit
from barnabas.console.clusters import Cluster
from barnabas.console.gate import OpenGate
from barnabas.console.pages import route_table
from barnabas.console.settings import ConsoleSettings
from barnabas.network.web import WebServer, bind


class ConsoleServer:
    def __init__(self, settings: ConsoleSettings) -> None:
        self.settings = settings
        self.clusters = {each.name: Cluster(each, settings) for each in settings.clusters}
        self.gate = OpenGate()
        self.app = ConsoleApp(settings, self.clusters, route_table(), self.gate, NoAudit())
        self.port = settings.listen.port
        self._http: WebServer | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        return f"http://{Address(self.settings.listen.host, self.port)}"

    async def start(self) -> None:
        """Returns when pages are served; the clusters may be away."""
        listening = bind(*self.settings.listen)
        try:
            self.port = listening.getsockname()[1]
            for cluster in self.clusters.values():
                await cluster.start()
            self._http = WebServer(self.app)
            await self._http.start(listening)
        except BaseException:
            listening.close()
            await self.stop()
            raise

    async def stop(self) -> None:
        if self._http is not None:
            await self._http.stop()
            self._http = None
        for cluster in self.clusters.values():
            await cluster.stop()
        await self.gate.close()
