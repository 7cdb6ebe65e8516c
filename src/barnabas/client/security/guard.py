"""Security state shared by the connections of a client: TLS context and SASL credentials."""

from __future__ import annotations

import ssl
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from barnabas.client.errors import AuthenticationError
from barnabas.client.security.scram import Exchange, scram
from barnabas.client.security.settings import PLAINTEXT, ClientSecurity, Mechanism, SaslSettings
from barnabas.client.security.tls import tls_context
from barnabas.security.tls import TlsSettings

if TYPE_CHECKING:
    from barnabas.client.security.tokens import TokenSource


# -- SASL mechanisms as exchanges without I/O. Kafka's broker reports the reason of a failure ----------

_SEPARATOR = "\x01"


def exchange_of(sasl: SaslSettings, token: str | None = None) -> Exchange:
    """A new exchange; only OAUTHBEARER needs a token."""
    if sasl.mechanism is Mechanism.PLAIN:
        return plain(sasl.username, sasl.password.text)
    if sasl.mechanism is Mechanism.OAUTHBEARER:
        return oauthbearer(token or "", sasl.extensions)
    hash_name = "sha256" if sasl.mechanism is Mechanism.SCRAM_SHA_256 else "sha512"
    return scram(hash_name, sasl.username, sasl.password.text)


def plain(username: str, password: str) -> Exchange:
    """RFC 4616: the broker reads the password, so this belongs inside TLS."""
    yield f"\0{username}\0{password}".encode()


def oauthbearer(token: str, extensions: tuple[tuple[str, str], ...] = ()) -> Exchange:
    """RFC 7628. A failure arrives as a JSON challenge; the error follows after an empty response."""
    parts = ["n,,", f"auth=Bearer {token}", *(f"{name}={value}" for name, value in extensions)]
    refusal = yield (_SEPARATOR.join(parts) + _SEPARATOR * 2).encode()
    if refusal:
        yield _SEPARATOR.encode()
        raise AuthenticationError(f"the broker rejected the token: {_status(refusal)}")


def _status(refusal: bytes) -> str:
    try:
        found = msgspec.json.decode(refusal, type=dict[str, str])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return "no reason given"
    return found.get("status", "no reason given")


class Guard:
    """Created once per client: reads the files named in settings and raises their errors."""

    def __init__(self, security: ClientSecurity = PLAINTEXT) -> None:
        self.security = security
        self.context: ssl.SSLContext | None = tls_context(security.tls) if security.tls else None
        self._tokens = _tokens_of(security)

    @property
    def mechanism(self) -> Mechanism | None:
        return self.security.sasl.mechanism if self.security.sasl else None

    def renew(self, tls: TlsSettings, context: ssl.SSLContext) -> None:
        """Replace the TLS context for new connections."""
        self.security, self.context = replace(self.security, tls=tls), context

    async def new_exchange(self) -> Exchange:
        assert self.security.sasl is not None
        token = await self._tokens.current() if self._tokens else None
        return exchange_of(self.security.sasl, token)


def _tokens_of(security: ClientSecurity) -> TokenSource | None:
    if security.sasl is None or security.sasl.token is None:
        return None
    from barnabas.client.security.tokens import (
        TokenSource,
    )  # urllib takes as long to load as the rest of the client

    return TokenSource(security.sasl.token)


NO_GUARD = Guard()
