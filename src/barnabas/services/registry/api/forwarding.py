"""Changes go to the registry that leads, with the client's own name and password: that one checks them again."""

from __future__ import annotations

import asyncio
import http.client
import ssl

from barnabas.client.schemas.client import whole_body
from barnabas.services.registry import errors
from barnabas.services.registry.api.media import ACCEPT_UNKNOWN
from barnabas.services.registry.leadership import Identity

FORWARDED = "x-forward"  # Confluent's header: whoever gets it does not forward again
TIMEOUT = 35.0  # a little longer than the leader takes for a change
_PASSED_ON = ("accept", "authorization", "content-type", ACCEPT_UNKNOWN)


class Forwarder:
    """`tls` says whom to trust where the leader is asked by https; None: whom the system trusts."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls

    async def forward(
        self, leader: Identity, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, bytes]:
        passed_on = {name: headers[name] for name in _PASSED_ON if name in headers}
        passed_on[FORWARDED] = "true"
        try:
            return await asyncio.to_thread(self._exchange, leader, method, target, passed_on, body)
        except (OSError, http.client.HTTPException) as error:
            raise errors.forwarding_failed(leader.url, str(error) or type(error).__name__) from error

    def _exchange(
        self, leader: Identity, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, bytes]:
        connection = self._connection(leader)
        try:
            connection.request(method, target, body or None, headers)
            response = connection.getresponse()
            return response.status, whole_body(response)
        finally:
            connection.close()

    def _connection(self, leader: Identity) -> http.client.HTTPConnection:
        if leader.scheme != "https":
            return http.client.HTTPConnection(leader.host, leader.port, timeout=TIMEOUT)
        return http.client.HTTPSConnection(leader.host, leader.port, timeout=TIMEOUT, context=self._tls)
