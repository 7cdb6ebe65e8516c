"""What all connections of one client share: a TLS context, and the name it gives."""

from __future__ import annotations

import ssl
from dataclasses import replace
from typing import TYPE_CHECKING

from barnabas.client.security.mechanisms import exchange_of
from barnabas.client.security.scram import Exchange
from barnabas.client.security.settings import PLAINTEXT, Mechanism, Security
from barnabas.client.security.tls import tls_context
from barnabas.security.tls.settings import Tls

if TYPE_CHECKING:
    from barnabas.client.security.tokens import Tokens


class Guard:
    """Made once for a client: the files that its settings name are read here, and errors in them show here."""

    def __init__(self, security: Security = PLAINTEXT) -> None:
        self.security = security
        self.context: ssl.SSLContext | None = tls_context(security.tls) if security.tls else None
        self._tokens = _tokens_of(security)

    @property
    def mechanism(self) -> Mechanism | None:
        return self.security.sasl.mechanism if self.security.sasl else None

    def renew(self, tls: Tls, context: ssl.SSLContext) -> None:
        """Use another context, that of these settings, for new connections."""
        self.security, self.context = replace(self.security, tls=tls), context

    async def new_exchange(self) -> Exchange:
        assert self.security.sasl is not None
        token = await self._tokens.current() if self._tokens else None
        return exchange_of(self.security.sasl, token)


def _tokens_of(security: Security) -> Tokens | None:
    if security.sasl is None or security.sasl.token is None:
        return None
    from barnabas.client.security.tokens import (
        Tokens,
    )  # urllib takes as long to load as the rest of the client

    return Tokens(security.sasl.token)


NO_GUARD = Guard()
