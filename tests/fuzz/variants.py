"""Variants of a run: the listener, and before or after authentication.

plaintext           nobody authenticates
tls       before    bytes that are no TLS, damaged handshakes and damaged records
          after     frames in TLS
sasl      before    frames of a stranger: each is refused or ends the connection
          after     frames of a client that has logged in with PLAIN or SCRAM
sasl_tls  before    the same in TLS
          after
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.testing.client_settings import plain_users

BEFORE, AFTER = "before", "after"
USER, PASSWORD = "alice", "correct horse battery staple"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
LISTENERS = {"plaintext": "PLAINTEXT", "tls": "SSL", "sasl": "SASL_PLAINTEXT", "sasl_tls": "SASL_SSL"}


class Variant(NamedTuple):
    listener: str
    stage: str = AFTER

    @property
    def has_tls(self) -> bool:
        return self.listener.endswith("tls") and self != BROKEN_TLS

    @property
    def logs_in(self) -> bool:
        return self.listener.startswith("sasl") and self.stage == AFTER

    @property
    def is_unauthenticated(self) -> bool:
        return self.listener.startswith("sasl") and self.stage == BEFORE

    def __str__(self) -> str:
        return self.listener if self == PLAIN else f"{self.listener} {self.stage}"


PLAIN = Variant("plaintext")
BROKEN_TLS = Variant("tls", BEFORE)
# Rounds of each variant. Plaintext frames without login are the cheapest, and handlers behave the same.
TURNS = {
    PLAIN: 4,
    BROKEN_TLS: 1,
    Variant("tls"): 1,
    Variant("sasl", BEFORE): 1,
    Variant("sasl"): 1,
    Variant("sasl_tls", BEFORE): 1,
    Variant("sasl_tls"): 1,
}


def chosen(listener: str | None, stage: str | None) -> list[Variant]:
    """The requested variants; all by default."""
    return [
        variant
        for variant in TURNS
        if listener in (None, variant.listener) and stage in (None, variant.stage)
    ]


def settings() -> dict[str, str]:
    """Of a broker with all listeners."""
    names = [name.upper() for name in LISTENERS]
    protocols = zip(names, LISTENERS.values(), strict=True)
    logins = {
        f"listener.name.{name}.plain.sasl.jaas.config": plain_users({USER: PASSWORD})
        for name in ("sasl", "sasl_tls")
    }
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in names),
        "listener.security.protocol.map": ",".join(map(":".join, protocols)),
        "inter.broker.listener.name": "PLAINTEXT",
        "barnabas.tls.auto": "true",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "connections.max.reauth.ms": "3600000",  # so that clients may authenticate again
        "connection.failed.authentication.delay.ms": "5",  # unauthenticated clients fail continuously
        **logins,
    }
