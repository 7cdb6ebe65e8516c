"""A registry that runs: the topic, the election and HTTP, put together.

async with RegistryServer(RegistrySettings("127.0.0.1:9092")) as registry:
    registry.url
"""

from __future__ import annotations

import socket
from dataclasses import dataclass

from barnabas.client.addresses import Address
from barnabas.client.security.settings import PLAINTEXT, Security
from barnabas.client.security.tls import tls_context
from barnabas.common.safe_logging import safe_logger
from barnabas.network.exposure import is_loopback
from barnabas.web.server import WebServer, bind
from barnabas.web.process import Server
from barnabas.services.registry.access import Access
from barnabas.services.registry.api.app import RegistryApp
from barnabas.services.registry.api.forwarding import Forwarder
from barnabas.services.registry.leadership import GROUP, Identity
from barnabas.services.registry.service import SchemaService
from barnabas.services.registry.store import SchemaStore, StoreSettings
from barnabas.services.registry.topic import TOPIC
from barnabas.security.tls.server import https_context
from barnabas.security.tls.settings import Tls

logger = safe_logger(__name__)

DEFAULT_LISTEN = Address("127.0.0.1", 8081)
_WILDCARDS = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """`advertised` is where the other registries reach this one, by default where it listens. `tls`: by https."""

    bootstrap: str
    security: Security = PLAINTEXT
    listen: Address = DEFAULT_LISTEN
    advertised: Address | None = None
    topic: str = TOPIC
    group: str = GROUP
    tls: Tls | None = None


class RegistryServer(Server):
    def __init__(self, settings: RegistrySettings) -> None:
        self.settings = settings
        stored = StoreSettings(settings.bootstrap, settings.security, settings.topic, settings.group)
        self.store = SchemaStore(stored)
        self.access = Access(settings.bootstrap, settings.security)
        self._tls = None if settings.tls is None else https_context("the schema registry", settings.tls)
        forwarder = Forwarder(None if settings.tls is None else tls_context(settings.tls))
        self.app = RegistryApp(SchemaService(self.store), self.access, forwarder)
        self.port = settings.listen.port
        self._http: WebServer | None = None

    @property
    def url(self) -> str:
        """For clients on this machine, or as advertised."""
        return self.identity.url

    @property
    def identity(self) -> Identity:
        scheme, advertised = "http" if self._tls is None else "https", self.settings.advertised
        if advertised is not None:
            return Identity(advertised.host, advertised.port or self.port, scheme)
        host = self.settings.listen.host
        return Identity(socket.gethostname() if host in _WILDCARDS else host, self.port, scheme)

    async def start(self) -> None:
        """Returns when schemas can be looked up. UnsuitableTopicError if the topic would lose some."""
        listening = bind(*self.settings.listen)
        try:
            self.port = listening.getsockname()[1]
            self._warn_if_exposed()
            await self.store.start()
            self.store.join(self.identity)
            self._http = WebServer(self.app, self._tls)
            await self._http.start(listening)
        except BaseException:
            listening.close()
            await self.stop()
            raise

    async def stop(self) -> None:
        if self._http is not None:
            await self._http.stop()
            self._http = None
        await self.access.close()
        await self.store.close()

    def _warn_if_exposed(self) -> None:
        if self.access.is_open and not is_loopback(self.settings.listen.host):
            logger.warning(
                "the schema registry on %s can be reached from other machines and asks nobody for a name: everybody "
                "who reaches it can change and delete schemas. Listen on 127.0.0.1, or let the brokers ask (SASL)",
                self.settings.listen,
            )
