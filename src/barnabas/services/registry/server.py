"""Registry server: topic, leader election and HTTP.

async with RegistryServer(RegistrySettings("127.0.0.1:9092")) as registry:
    registry.url
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from barnabas.client import Address
from barnabas.client.security import PLAINTEXT, ClientSecurity, tls_context
from barnabas.common.addresses import is_loopback
from barnabas.common.safe_logging import safe_logger
from barnabas.security.tls import TlsSettings, https_context
from barnabas.services.registry.access import OpenRegistryError, Origins, RegistryAccess
from barnabas.services.registry.api.app import RegistryApp
from barnabas.services.registry.api.forwarding import Forwarder
from barnabas.services.registry.certificates import CertificateUsers
from barnabas.services.registry.leadership import GROUP, RegistryIdentity
from barnabas.services.registry.service import SchemaService
from barnabas.services.registry.store import SchemaStore, SchemaStoreSettings
from barnabas.services.registry.topic import TOPIC
from barnabas.web import Server, WebLimits, WebServer, bind

logger = safe_logger(__name__)

DEFAULT_LISTEN = Address("127.0.0.1", 8081)
_WILDCARDS = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """`advertised` is the address for other registries, by default the listen address. `tls` enables HTTPS.

    `peers` are addresses of other vendors' registries that may receive client credentials. `client_auth` and
    `mapping_rules` correspond to a broker's ssl.client.auth and ssl.principal.mapping.rules. `is_open` disables
    authorization.
    """

    bootstrap: str
    security: ClientSecurity = PLAINTEXT
    listen: Address = DEFAULT_LISTEN
    advertised: Address | None = None
    topic: str = TOPIC
    group: str = GROUP
    tls: TlsSettings | None = None
    peers: frozenset[str] = frozenset()
    client_auth: str = "none"
    mapping_rules: str = "DEFAULT"
    is_open: bool = False
    http: WebLimits = field(default_factory=WebLimits)


class RegistryServer(Server):
    """`died` is called after a fatal error; `is_dead` is True from then on."""

    def __init__(self, settings: RegistrySettings, died: Callable[[], None] | None = None) -> None:
        self.settings = settings
        self.is_dead = False
        self._died = died
        stored = SchemaStoreSettings(
            settings.bootstrap, settings.security, settings.topic, settings.group, settings.peers
        )
        self.store = SchemaStore(stored, self._die)
        self.access = RegistryAccess(
            settings.bootstrap, settings.security, _certificate_users(settings), settings.topic
        )
        self._tls = (
            None
            if settings.tls is None
            else https_context("the schema registry", settings.tls, settings.client_auth)
        )
        forwarder = Forwarder(_forwarding_context(settings))
        self.service = SchemaService(self.store)
        self.app = RegistryApp(self.service, self.access, forwarder, _origins(settings))
        self.port = settings.listen.port
        self._http: WebServer | None = None

    @property
    def url(self) -> str:
        """Advertised URL, or else the URL for local clients."""
        return self.identity.url

    @property
    def identity(self) -> RegistryIdentity:
        scheme, advertised = "http" if self._tls is None else "https", self.settings.advertised
        if advertised is not None:
            return RegistryIdentity(advertised.host, advertised.port or self.port, scheme)
        host = self.settings.listen.host
        return RegistryIdentity(socket.gethostname() if host in _WILDCARDS else host, self.port, scheme)

    async def start(self) -> None:
        """Return once schemas can be looked up. UnsuitableTopicError if the topic could lose schemas."""
        listening = bind(*self.settings.listen)
        try:
            self.port = listening.getsockname()[1]
            self._warn_if_exposed()
            await self.store.start()
            self.store.join(self.identity)
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
        await self.access.close()
        await self.store.close()
        self.service.work.close()

    def _die(self) -> None:
        self.is_dead = True
        if self._died is not None:
            self._died()

    def _warn_if_exposed(self) -> None:
        if self.access.is_open and not is_loopback(self.settings.listen.host):
            logger.warning(
                "the schema registry on %s is reachable from other machines without authentication: any client can "
                "change and delete schemas. Listen on 127.0.0.1, or enable SASL on the brokers",
                self.settings.listen,
            )


def _certificate_users(settings: RegistrySettings) -> CertificateUsers | None:
    """OpenRegistryError if brokers authenticate clients by certificate and the registry does not."""
    tls, sasl = settings.security.tls, settings.security.sasl
    if tls is None or tls.certificate is None or sasl is not None or settings.is_open:
        return None
    if settings.tls is None or settings.client_auth != "required":
        raise OpenRegistryError
    return CertificateUsers(settings.bootstrap, settings.security, settings.mapping_rules)


def _forwarding_context(settings: RegistrySettings) -> ssl.SSLContext | None:
    """TLS context for forwarding. It presents the broker client certificate, whose principal may write to the topic."""
    if settings.tls is None:
        return None
    own = settings.security.tls
    if own is None or own.certificate is None:
        return tls_context(settings.tls)
    return tls_context(
        replace(settings.tls, certificate=own.certificate, key=own.key, key_password=own.key_password)
    )


def _origins(settings: RegistrySettings) -> Origins:
    if not is_loopback(settings.listen.host):
        return Origins()
    names = () if settings.advertised is None else (settings.advertised.host.lower(),)
    return Origins(frozenset(names))
