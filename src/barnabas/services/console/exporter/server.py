"""`barnabas console --exporter-only`: serves only the metrics page of one cluster.

It needs no packages of the `console` extra. `/health` reports whether the figures are current.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from barnabas.client import Address, Client
from barnabas.common.addresses import is_loopback
from barnabas.common.safe_logging import safe_logger
from barnabas.metrics import Registry, render_lines
from barnabas.services.console.exporter.lines import Exporter
from barnabas.services.console.exporter.publishing import Publisher
from barnabas.services.console.exporter.watch import ClusterWatch
from barnabas.services.console.sampling.sampler import Sampler
from barnabas.services.console.settings import ClusterSettings
from barnabas.services.console.statuses import StatusBoard
from barnabas.web import HttpCredentials, MetricsServer, Server

CLIENT_ID = "barnabas-exporter"

_logger = safe_logger(__name__)


class ExporterServer(Server):
    """`tokens_file` lists accepted bearer tokens, one per line; without it, no authentication is required."""

    def __init__(
        self, cluster: ClusterSettings, listen: Address, tokens_file: str = "", publish_metrics: str = ""
    ) -> None:
        self._client = Client(cluster.bootstrap, client_id=CLIENT_ID, security=cluster.security)
        self.sampler = Sampler(self._client)
        self._statuses = StatusBoard(self._client)
        self.watch = ClusterWatch(self.sampler, self._client, self._statuses)
        self.exporter = Exporter(self.watch)
        self._listen = listen
        self._registry = Registry()
        self._http = MetricsServer(self._registry, self.health, lines=self._lines)
        self._http.secure(HttpCredentials(tokens_file=tokens_file, tokens_setting="--tokens"), None)
        self._is_open = not tokens_file
        if publish_metrics:
            publisher = Publisher(self._client, publish_metrics, cluster.name)
            self.watch.followers.append(publisher.publish)

    @property
    def url(self) -> str:
        return f"http://{Address(self._listen.host, self._http.port)}/metrics"

    async def start(self) -> None:
        """Return once the page is served; the cluster may still be unreachable."""
        if self._is_open and not is_loopback(self._listen.host):
            _logger.warning(
                "%s can be reached from other machines, and every client can read the names of topics "
                "and groups. Give it --tokens FILE, or listen on 127.0.0.1.",
                self._listen,
            )
        await self._http.start(*self._listen)
        self.sampler.start()
        self._statuses.start()
        self.watch.start()

    async def stop(self) -> None:
        await self._http.stop()
        await self.watch.close()
        await self._statuses.close()
        await self.sampler.close()
        await self._client.close()

    def health(self) -> tuple[bool, Mapping[str, object]]:
        known = self.watch.known
        status = "down" if known.is_stale else "up"
        return not known.is_stale, {"status": status, "age": known.age, "error": known.snapshot.error}

    def _lines(self) -> Iterator[str]:
        return chain(self.exporter.lines(), render_lines(self._registry))
