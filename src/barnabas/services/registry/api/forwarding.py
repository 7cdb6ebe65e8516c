"""Forwards changes to the leader with the client's credentials, which the leader checks again."""

from __future__ import annotations

import asyncio
import ssl

from barnabas.client.schemas.client import MAX_ANSWER
from barnabas.common.http_client import fetch
from barnabas.services.registry import errors
from barnabas.services.registry.api.media import ACCEPT_UNKNOWN
from barnabas.services.registry.leadership import RegistryIdentity

FORWARDED = "x-forward"  # Confluent's header: a request with it is not forwarded again
TIMEOUT = 35.0  # slightly longer than the leader's timeout of a change
_PASSED_ON = ("accept", "authorization", "content-type", ACCEPT_UNKNOWN)


class Forwarder:
    """`tls` is the trust configuration for an HTTPS leader; None: the system's trust store."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls

    async def forward(
        self, leader: RegistryIdentity, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, bytes]:
        passed_on = {name: headers[name] for name in _PASSED_ON if name in headers}
        passed_on[FORWARDED] = "true"
        try:
            response = await asyncio.to_thread(
                fetch,
                leader.url + target,
                method=method,
                body=body,
                headers=passed_on,
                timeout=TIMEOUT,
                max_bytes=MAX_ANSWER,
                tls=self._tls,
            )
        except OSError as error:
            raise errors.forwarding_failed(leader.url, str(error) or type(error).__name__) from error
        return response.status, response.body
