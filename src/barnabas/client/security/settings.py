"""What is wanted of TLS and SASL. Values: to be compared, pickled for Spark's tasks, and shown without secrets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from barnabas.security.secret import Secret
from barnabas.security.tls.settings import Tls

NO_PASSWORD = Secret("")
TokenProvider = Callable[[], Awaitable[str]]


class Protocol(StrEnum):
    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        return self in (Protocol.SSL, Protocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (Protocol.SASL_PLAINTEXT, Protocol.SASL_SSL)


class Mechanism(StrEnum):
    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """Where a client id and its secret are exchanged for a token (OAuth 2.0, client credentials)."""

    url: str
    client_id: str = ""
    client_secret: Secret | None = None
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class Sasl:
    """`token` is a text, the place to get one, or a coroutine function that the caller has."""

    mechanism: Mechanism
    username: str = ""
    password: Secret = NO_PASSWORD
    token: Secret | TokenEndpoint | TokenProvider | None = None
    extensions: tuple[tuple[str, str], ...] = ()  # of OAUTHBEARER (RFC 7628, KIP-342)


@dataclass(frozen=True, slots=True)
class Security:
    tls: Tls | None = None
    sasl: Sasl | None = None

    @classmethod
    def of(cls, protocol: Protocol, tls: Tls, sasl: Sasl | None) -> Self:
        return cls(tls if protocol.has_tls else None, sasl if protocol.has_sasl else None)

    @property
    def protocol(self) -> Protocol:
        if self.sasl is None:
            return Protocol.PLAINTEXT if self.tls is None else Protocol.SSL
        return Protocol.SASL_PLAINTEXT if self.tls is None else Protocol.SASL_SSL


PLAINTEXT = Security()
