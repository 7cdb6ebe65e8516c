"""The door as an HTTP server."""

from __future__ import annotations

from barnabas.client.addresses import Address
from barnabas.common.safe_logging import safe_logger
from barnabas.security.tls.of_files import context_of_files
from barnabas.services.ingest.http.app import ProduceApp
from barnabas.services.ingest.http.door import PublishQueue
from barnabas.services.ingest.http.settings import HttpSettings, check_settings
from barnabas.web.server import WebServer, bind

_logger = safe_logger(__name__)


class ProduceServer:
    def __init__(self, settings: HttpSettings, door: PublishQueue) -> None:
        """Refuses settings that cannot be meant, or that would let everybody write."""
        self._settings = settings
        self._address = check_settings(settings)
        self._app = ProduceApp(settings, door)
        self._http: WebServer | None = None
        self.address: Address | None = None
        """Where it listens, with the port that it got."""

    @property
    def url(self) -> str:
        scheme = "http" if self._settings.tls_certificate is None else "https"
        return f"{scheme}://{self.address or self._address}"

    async def start(self) -> None:
        settings, tls = self._settings, None
        if settings.tls_certificate is not None:
            tls = context_of_files("http", settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
        listening = bind(*self._address)
        try:
            self._http = WebServer(self._app, tls, settings.limits)
            await self._http.start(listening)
        except BaseException:
            listening.close()
            raise
        self.address = Address(self._address.host, listening.getsockname()[1])
        _logger.info("records are taken on %s", self.url)

    def stop_accepting(self) -> None:
        if self._http is not None:
            self._http.stop_accepting()

    async def stop(self) -> None:
        if self._http is not None:
            await self._http.stop()
            self._http = None
