"""Schema registry for an embedded broker, on a separate thread and event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.client import Address
from barnabas.common.loop_thread import LoopThread
from barnabas.network import new_event_loop

if TYPE_CHECKING:
    from barnabas.client.security import ClientSecurity
    from barnabas.services.registry import RegistryServer

START_TIMEOUT = 60.0
STOP_TIMEOUT = 60.0


class EmbeddedRegistry:
    """Ready when the constructor returns."""

    def __init__(
        self,
        bootstrap: str,
        security: ClientSecurity,
        host: str = "127.0.0.1",
        port: int = 0,
        peers: frozenset[str] = frozenset(),
    ) -> None:
        self._thread = LoopThread("barnabas registry", new_event_loop())
        try:
            started = _start(bootstrap, security, Address(host, port), peers)
            self._server = self._thread.run(started, START_TIMEOUT)
        except BaseException:
            self._thread.close()
            raise

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def port(self) -> int:
        return self._server.port

    def stop(self) -> None:
        try:
            self._thread.run(self._server.stop(), STOP_TIMEOUT)
        finally:
            self._thread.close()


async def _start(
    bootstrap: str, security: ClientSecurity, listen: Address, peers: frozenset[str]
) -> RegistryServer:
    from barnabas.services.registry import RegistryServer, RegistrySettings

    server = RegistryServer(RegistrySettings(bootstrap, security, listen, peers=peers))
    await server.start()
    return server
