"""Delegation tokens (KIP-48): a token's secret is computed from its id and the brokers' secret key.

The metadata therefore contain no token secrets, and reading them does not reveal any. A client logs in over SCRAM with
the id as its name and the HMAC, in base64, as its password.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterable

from barnabas.common.cooperative import Steps
from barnabas.security.authn.credentials import DelegationToken, ScramCredential, ScramMechanism
from barnabas.security.authn.scram import MIN_ITERATIONS, credential_from_salted, salted_password

HASH = "sha512"
HMACS_PER_STEP = 500


def hmac_of(token_id: str, secret_key: str) -> bytes:
    """Compute the token's HMAC as Kafka does."""
    return hmac.digest(secret_key.encode(), token_id.encode(), HASH)


def password_of(token_id: str, secret_key: str) -> str:
    """Return the SCRAM password of a client that uses the token."""
    return base64.b64encode(hmac_of(token_id, secret_key)).decode()


def credential_of(
    token: DelegationToken, mechanism: ScramMechanism, secret_key: str, salt: bytes
) -> ScramCredential:
    """Return the credential to verify a SCRAM login with this token. Takes a few milliseconds."""
    salted = salted_password(mechanism, password_of(token.token_id, secret_key), salt, MIN_ITERATIONS)
    return credential_from_salted(mechanism, salt, salted, MIN_ITERATIONS)


def is_owner_or_renewer(token: DelegationToken, principal: str) -> bool:
    """True if the principal may renew and expire the token."""
    return principal == token.owner or principal in token.renewers


def is_concerned(token: DelegationToken, principal: str) -> bool:
    """True if the principal may see the token; includes the requester of a token for another owner (KIP-373)."""
    return principal == token.requester or is_owner_or_renewer(token, principal)


def is_expired(token: DelegationToken, now_ms: int) -> bool:
    return token.expires_ms < now_ms or token.max_ms < now_ms


class TokenSecrets:
    """Index of the cluster's tokens by their secret."""

    def __init__(self, secret_key: str) -> None:
        self._key = secret_key
        self._ids: dict[bytes, str] = {}
        self._known: set[str] = set()

    def __repr__(self) -> str:
        return f"TokenSecrets({len(self._known)} tokens)"

    def of(self, token_id: str) -> bytes:
        return hmac_of(token_id, self._key)

    def finding(self, tokens: Iterable[str], secret: bytes) -> Steps[str | None]:
        """Find the id of the token with this secret; in steps, because the first call computes all HMACs."""
        present = set(tokens)
        for deleted in self._known - present:
            self._ids.pop(self.of(deleted), None)
        for count, new in enumerate(present - self._known, 1):
            self._ids[self.of(new)] = new
            if not count % HMACS_PER_STEP:
                yield
        self._known = present
        return self._ids.get(secret)
