"""Credentials stored in the cluster metadata: SCRAM keys derived from passwords (RFC 5802), and delegation tokens."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import msgspec

# -- Secrets in settings, and errors about invalid settings --------------------------------------------


class SecuritySettingError(ValueError):
    """An invalid security setting; the message is the setting's name followed by `problem`."""

    def __init__(self, setting: str, problem: str) -> None:
        super().__init__(setting, problem)
        self.setting = setting
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.setting} {self.problem}"


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A string whose repr is `[hidden]`, so that it never appears in logs, plans or errors."""

    text: str

    def __repr__(self) -> str:
        return "[hidden]"  # as Kafka shows passwords


class ScramMechanism(IntEnum):
    """Kafka's numbers (KIP-554)."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        return f"SCRAM-SHA-{256 if self is ScramMechanism.SHA_256 else 512}"

    @property
    def hash_name(self) -> str:
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"

    @property
    def digest_bytes(self) -> int:
        return 32 if self is ScramMechanism.SHA_256 else 64


class ScramCredential(msgspec.Struct, frozen=True):
    """Keys to verify a password and to prove knowledge of it, without the password itself."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


class DelegationToken(msgspec.Struct, frozen=True):
    """Kafka's TokenInformation. The token's secret, an HMAC, is computed from the id and the brokers' secret key."""

    token_id: str
    owner: str
    """As `User:alice`."""
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    """Upper bound of `expires_ms` when the token is renewed."""
