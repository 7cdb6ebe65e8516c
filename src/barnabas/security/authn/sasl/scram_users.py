"""SCRAM credentials of users and delegation tokens, and decoys for unknown names.

A client must not learn from the challenge which users exist. An unknown name therefore gets a salt that is the same
each time and on each broker, with the salt length and iteration count that most users have. The decoy is computed for
existing names, too, so that both cases take the same time.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from barnabas.security.authn.credentials import DelegationToken, ScramCredential, ScramMechanism
from barnabas.security.authn.sasl.scram import ScramIdentity
from barnabas.security.authn.scram import MIN_ITERATIONS, SALT_BYTES
from barnabas.security.authn.tokens import credential_of, is_expired
from barnabas.security.principal import USER, Principal

# -- Delegation tokens, which log in over SCRAM (KIP-48) -----------------------------------------------


class StoredTokens:
    """Tokens in the current cluster metadata; none without a secret key."""

    def __init__(
        self,
        tokens: Callable[[], Mapping[str, DelegationToken]],
        secret_key: str | None,
        now_ms: Callable[[], int],
    ) -> None:
        self._tokens = tokens
        self._key = secret_key
        self._now_ms = now_ms

    def known(self, mechanism: ScramMechanism, token_id: str, salt: bytes) -> ScramIdentity | None:
        token = self._tokens().get(token_id)
        if token is None or self._key is None or is_expired(token, self._now_ms()):
            return None
        kind, _, name = token.owner.partition(":")
        owner = Principal(kind, name, is_token_authenticated=True)
        return ScramIdentity(credential_of(token, mechanism, self._key, salt), owner, token.expires_ms)


Credentials = Mapping[Any, ScramCredential]
"""Credentials by name and mechanism, as in the cluster metadata."""


class TokenCredentials(Protocol):
    def known(self, mechanism: ScramMechanism, token_id: str, salt: bytes) -> ScramIdentity | None:
        """Return the credential of a delegation token that has not expired."""
        ...


class NoTokens:
    def known(self, mechanism: ScramMechanism, token_id: str, salt: bytes) -> ScramIdentity | None:
        return None


class _Parameters(NamedTuple):
    """Parameters of a credential that are visible to an unauthenticated client."""

    salt_bytes: int = SALT_BYTES
    iterations: int = MIN_ITERATIONS


class StoredUsers:
    """Users in the current cluster metadata.

    `decoy_key` is a secret shared by all brokers, so that each gives an unknown name the same salt, also after a
    restart. Metadata without this key contain no users.
    """

    def __init__(
        self,
        credentials: Callable[[], Credentials],
        tokens: TokenCredentials | None = None,
        decoy_key: Callable[[], bytes] = bytes,
    ) -> None:
        self._credentials = credentials
        self._tokens = tokens or NoTokens()
        self._decoy_key = decoy_key
        self._own_key = secrets.token_bytes(32)
        self._common: tuple[Credentials, dict[int, _Parameters]] = {}, {}

    def of_user(self, mechanism: ScramMechanism, name: str) -> ScramIdentity:
        credentials = self._credentials()
        decoy = self._decoy(self._common_parameters(credentials, mechanism), mechanism, name)
        credential = credentials.get((name, mechanism))
        if credential is None or credential.iterations < MIN_ITERATIONS:
            return decoy
        return ScramIdentity(credential, Principal(USER, name))

    def of_token(self, mechanism: ScramMechanism, token_id: str) -> ScramIdentity:
        """Look up a token. Tokens have no stored salt and use that of the decoy for their id."""
        decoy = self._decoy(_Parameters(), mechanism, token_id)
        return self._tokens.known(mechanism, token_id, decoy.credential.salt) or decoy

    def _common_parameters(self, credentials: Credentials, mechanism: ScramMechanism) -> _Parameters:
        """Return the most common parameters of the mechanism's users, independent of their order."""
        if self._common[0] is not credentials:
            self._common = credentials, {}
        cached = self._common[1]
        if mechanism not in cached:
            cached[mechanism] = _most_common(
                _Parameters(len(each.salt), each.iterations)
                for (_, other), each in credentials.items()
                if other == mechanism and each.iterations >= MIN_ITERATIONS
            )
        return cached[mechanism]

    def _decoy(self, parameters: _Parameters, mechanism: ScramMechanism, name: str) -> ScramIdentity:
        """Return a credential that looks like another user's of the mechanism and that no proof matches."""
        key = self._decoy_key() or self._own_key
        seed = hmac.digest(key, f"{mechanism} {name}".encode("utf-8", "surrogatepass"), "sha512")
        size = mechanism.digest_bytes
        keys = secrets.token_bytes(size), secrets.token_bytes(size)
        salt = hashlib.shake_256(seed).digest(parameters.salt_bytes)
        return ScramIdentity(ScramCredential(salt, *keys, parameters.iterations), None)


def _most_common(parameters: Iterable[_Parameters]) -> _Parameters:
    counts = Counter(parameters)
    return max(counts, key=lambda each: (counts[each], each), default=_Parameters())
