"""TLS and SASL settings as values: comparable, picklable for Spark tasks, secrets masked in repr."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from barnabas.security.authn import Secret
from barnabas.security.tls import TlsSettings

# -- Supported settings with their descriptions; source of the generated documentation -----------------

PROTOCOL = "security.protocol"
PREFIXES = ("ssl.", "sasl.")

UNDERSTOOD = {
    PROTOCOL: "`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`.",
    "ssl.truststore.location": "PEM or PKCS12 file with trusted CAs; default: those of the system.",
    "ssl.truststore.password": "Password of a PKCS12 trust store.",
    "ssl.truststore.type": "`PEM` or `PKCS12`; detected from the file by default.",
    "ssl.truststore.certificates": "Trusted CAs, as PEM in the setting.",
    "ssl.ca.location": "As `ssl.truststore.location`; also a folder (librdkafka's name).",
    "ssl.ca.pem": "As `ssl.truststore.certificates` (librdkafka's name).",
    "ssl.keystore.location": "PEM or PKCS12 file with this client's certificate and key, for brokers that require one.",
    "ssl.keystore.password": "Password of a PKCS12 key store.",
    "ssl.keystore.type": "`PEM` or `PKCS12`; detected from the file by default.",
    "ssl.keystore.certificate.chain": "This client's certificate, as PEM in the setting.",
    "ssl.keystore.key": "Its key, as PEM in the setting.",
    "ssl.certificate.location": "PEM file with this client's certificate (librdkafka's name).",
    "ssl.certificate.pem": "As `ssl.keystore.certificate.chain` (librdkafka's name).",
    "ssl.key.location": "PEM file with its key (librdkafka's name).",
    "ssl.key.pem": "As `ssl.keystore.key` (librdkafka's name).",
    "ssl.key.password": "Password of an encrypted PEM key.",
    "ssl.endpoint.identification.algorithm": (
        "`https`: the broker's certificate must contain the host name. Empty or `none`: any certificate is accepted."
    ),
    "enable.ssl.certificate.verification": "`false` accepts any certificate; for experiments only.",
    "ssl.enabled.protocols": "`TLSv1.2`, `TLSv1.3` or both; default: OpenSSL's.",
    "ssl.cipher.suites": "Ciphers for TLS 1.2, with Java's or OpenSSL's names, separated by commas or colons.",
    "sasl.mechanism": "`PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512` or `OAUTHBEARER`.",
    "sasl.mechanisms": "As `sasl.mechanism` (librdkafka's name).",
    "sasl.jaas.config": 'User name and password as in Java: `...PlainLoginModule required username="u" password="p";`.',
    "sasl.username": "User name for PLAIN and SCRAM, without JAAS.",
    "sasl.password": "Password for PLAIN and SCRAM, without JAAS.",
    "sasl.oauthbearer.token": "Token for OAUTHBEARER.",
    "sasl.oauthbearer.token.endpoint.url": (
        "Endpoint that issues a token for a client id and secret; https, or http on this machine."
    ),
    "sasl.oauthbearer.client.id": "Client id for the endpoint (librdkafka's name).",
    "sasl.oauthbearer.client.secret": "Client secret for the endpoint (librdkafka's name).",
    "sasl.oauthbearer.client.credentials.client.id": "Client id for the endpoint.",
    "sasl.oauthbearer.client.credentials.client.secret": "Client secret for the endpoint.",
    "sasl.oauthbearer.scope": "Requested scope.",
    "sasl.oauthbearer.extensions": "Extensions for the broker, `name=value` separated by commas.",
    "sasl.login.callback.handler.class": "Only Kafka's `OAuthBearerLoginCallbackHandler`.",
}

# They tune Java's libraries, or what a broker does, or Kerberos. Names, and beginnings of names.
WITHOUT_EFFECT = (
    "sasl.kerberos.",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.",
    "sasl.login.retry.backoff.",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.",
    "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.jwks.",
    "sasl.oauthbearer.jwt.",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "ssl.keymanager.algorithm",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
)

_JAVA_CLASS = "it names a Java class, which cannot be run here"
REFUSED = {
    "sasl.client.callback.handler.class": _JAVA_CLASS,
    "sasl.login.class": _JAVA_CLASS,
    "ssl.engine.factory.class": _JAVA_CLASS,
    "ssl.crl.location": "put the revocation list into the file of ssl.ca.location, as PEM, instead",
    "sasl.oauthbearer.assertion.file": "tokens are requested with a client id and secret",
}

# Values that must not be shown.
SECRET = frozenset(
    {
        "ssl.truststore.password",
        "ssl.keystore.password",
        "ssl.keystore.key",
        "ssl.key.pem",
        "ssl.key.password",
        "sasl.jaas.config",
        "sasl.password",
        "sasl.oauthbearer.token",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.client.credentials.client.secret",
    }
)


NO_PASSWORD = Secret("")
TokenProvider = Callable[[], Awaitable[str]]


class SecurityProtocol(StrEnum):
    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class Mechanism(StrEnum):
    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """OAuth 2.0 token endpoint, for the client credentials grant."""

    url: str
    client_id: str = ""
    client_secret: Secret | None = None
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """`token` is a token, a token endpoint, or a coroutine function of the caller."""

    mechanism: Mechanism
    username: str = ""
    password: Secret = NO_PASSWORD
    token: Secret | TokenEndpoint | TokenProvider | None = None
    extensions: tuple[tuple[str, str], ...] = ()  # of OAUTHBEARER (RFC 7628, KIP-342)


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None

    @classmethod
    def of(cls, protocol: SecurityProtocol, tls: TlsSettings, sasl: SaslSettings | None) -> Self:
        return cls(tls if protocol.has_tls else None, sasl if protocol.has_sasl else None)

    @property
    def protocol(self) -> SecurityProtocol:
        if self.sasl is None:
            return SecurityProtocol.PLAINTEXT if self.tls is None else SecurityProtocol.SSL
        return SecurityProtocol.SASL_PLAINTEXT if self.tls is None else SecurityProtocol.SASL_SSL


PLAINTEXT = ClientSecurity()
