"""What is wanted of TLS and SASL. Values: to be compared, pickled for Spark's tasks, and shown without secrets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

TokenProvider = Callable[[], Awaitable[str]]


class SecuritySettingError(ValueError):
    """A setting that cannot be honoured; `problem` goes on where the setting's name ends."""

    def __init__(self, setting: str, problem: str) -> None:
        super().__init__(setting, problem)
        self.setting = setting
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.setting} {self.problem}"


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A text that is shown to nobody by accident: neither in a log nor in a plan nor in an error."""

    text: str

    def __repr__(self) -> str:
        return "[hidden]"  # as Kafka shows passwords


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
class Store:
    """Keys or certificates, in a file (PEM or PKCS12) or in the setting itself (PEM)."""

    setting: str  # which named it, so that an error can
    path: str | None = None
    text: Secret | None = None
    password: Secret | None = None


@dataclass(frozen=True, slots=True)
class Tls:
    authorities: Store | None = (
        None  # who may have signed the broker's certificate; None: whom the system trusts
    )
    certificate: Store | None = None  # ours, for brokers that ask for one
    key: Store | None = None  # its key, where that is not in the same store
    key_password: Secret | None = None
    check_host: bool = True
    check_certificate: bool = True
    versions: tuple[str, ...] = ()  # none: what the system's OpenSSL allows
    ciphers: str | None = None


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
    password: Secret = Secret("")
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
