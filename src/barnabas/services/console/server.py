"""Console server: clusters, authentication and HTTP.

async with ConsoleServer(ConsoleSettings((ClusterSettings("default", "127.0.0.1:9092"),))) as console:
    console.url
"""

from __future__ import annotations

from barnabas.client import Address
from barnabas.security.tls import https_context
from barnabas.services.console.access.audit import AuditTopicWriter, ConsoleAudit
from barnabas.services.console.access.authenticators import gate_of
from barnabas.services.console.app import ConsoleApp
from barnabas.services.console.clusters import Cluster
from barnabas.services.console.pages import route_table
from barnabas.services.console.scanning.process import Pool
from barnabas.services.console.settings import ConsoleSettings
from barnabas.web import Server, WebServer, bind


class ConsoleServer(Server):
    def __init__(self, settings: ConsoleSettings) -> None:
        self.settings = settings
        self.pool = Pool()
        self.clusters = {each.name: Cluster(each, settings, self.pool) for each in settings.clusters}
        self._tls = None if settings.tls is None else https_context("the console", settings.tls)
        self._audit_topic = self._topic_of_audit()
        self.audit = ConsoleAudit(settings.data, settings.access.audit, self._audit_topic)
        self.gate = gate_of(settings, self.audit)
        self.app = ConsoleApp(settings, self.clusters, route_table(), self.gate, self.audit)
        self.port = settings.listen.port
        self._http: WebServer | None = None

    @property
    def url(self) -> str:
        scheme = "http" if self._tls is None else "https"
        return self.settings.url or f"{scheme}://{Address(self.settings.listen.host, self.port)}"

    async def start(self) -> None:
        """Return once pages are served; clusters may still be unreachable."""
        listening = bind(*self.settings.listen)
        try:
            self.port = listening.getsockname()[1]
            for cluster in self.clusters.values():
                await cluster.start()
            self._http = WebServer(self.app, self._tls, self.settings.http)
            await self._http.start(listening)
        except BaseException:
            listening.close()
            await self.stop()
            raise

    async def stop(self) -> None:
        if self._http is not None:
            await self._http.stop()
            self._http = None
        if self._audit_topic is not None:
            await self._audit_topic.close()
        for cluster in self.clusters.values():
            await cluster.stop()
        await self.pool.close()
        await self.gate.close()

    def _topic_of_audit(self) -> AuditTopicWriter | None:
        wanted = self.settings.access.audit
        if not wanted.topic:
            return None
        cluster = self.clusters[wanted.cluster or next(iter(self.clusters))]
        return AuditTopicWriter(cluster.client, wanted.topic)
