"""What the cluster keeps to know its users again: keys derived from passwords (RFC 5802), and delegation tokens."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import msgspec

# -- Secrets in settings, and what is said about a setting that cannot be honoured ---------------------


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


class ScramMechanism(IntEnum):
    """Kafka's own numbers (KIP-554)."""

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
    """Enough to check a password and to prove that we know it; not the password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


class DelegationToken(msgspec.Struct, frozen=True):
    """Kafka's TokenInformation. Its HMAC, which is the secret, is computed from the id and the brokers' secret key."""

    token_id: str
    owner: str
    """As `User:alice`."""
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    """Renewing it does not move `expires_ms` beyond this."""
