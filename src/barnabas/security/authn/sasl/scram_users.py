"""Credentials for SCRAM: those of users, and made-up ones for names that nobody has.

A client must not learn from the answer who exists. So a name that nobody has is given a salt, the same each time and by
each broker, as long as those of most users and with as many iterations; both are computed for names that exist, too, so
that it takes the same time.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from barnabas.security.authn.credentials import DelegationToken, ScramCredential, ScramMechanism
from barnabas.security.authn.sasl.scram import Known
from barnabas.security.authn.scram import FEWEST_ITERATIONS, SALT_BYTES
from barnabas.security.authn.tokens import credential_of, is_expired
from barnabas.security.principal import USER, Principal

# -- Delegation tokens as names that log in over SCRAM (KIP-48) ----------------------------------------


class StoredTokens:
    """The tokens in the cluster's metadata, as they are at the moment of the question. Without a secret key there are
    none."""

    def __init__(
        self,
        tokens: Callable[[], Mapping[str, DelegationToken]],
        secret_key: str | None,
        now_ms: Callable[[], int],
    ) -> None:
        self._tokens = tokens
        self._key = secret_key
        self._now_ms = now_ms

    def known(self, mechanism: ScramMechanism, token_id: str, salt: bytes) -> Known | None:
        token = self._tokens().get(token_id)
        if token is None or self._key is None or is_expired(token, self._now_ms()):
            return None
        kind, _, name = token.owner.partition(":")
        owner = Principal(kind, name, is_token_authenticated=True)
        return Known(credential_of(token, mechanism, self._key, salt), owner, token.expires_ms)


Credentials = Mapping[Any, ScramCredential]
"""By name and mechanism, as the cluster's metadata have them."""


class Tokens(Protocol):
    def known(self, mechanism: ScramMechanism, token_id: str, salt: bytes) -> Known | None:
        """What is known of a delegation token that has not expired."""
        ...


class NoTokens:
    def known(self, mechanism: ScramMechanism, token_id: str, salt: bytes) -> Known | None:
        return None


class _Looks(NamedTuple):
    """What a client sees of a credential before it has proved anything."""

    salt_bytes: int = SALT_BYTES
    iterations: int = FEWEST_ITERATIONS


class StoredUsers:
    """The users in the cluster's metadata, as they are at the moment of the question.

    `decoy_key` is a secret of all brokers, so that each of them gives a name the same salt, also after a restart. Where
    the metadata have none there are no users.
    """

    def __init__(
        self,
        credentials: Callable[[], Credentials],
        tokens: Tokens | None = None,
        decoy_key: Callable[[], bytes] = bytes,
    ) -> None:
        self._credentials = credentials
        self._tokens = tokens or NoTokens()
        self._decoy_key = decoy_key
        self._own_key = secrets.token_bytes(32)
        self._looks: tuple[Credentials, dict[int, _Looks]] = {}, {}

    def of_user(self, mechanism: ScramMechanism, name: str) -> Known:
        credentials = self._credentials()
        made_up = self._made_up(self._common(credentials, mechanism), mechanism, name)
        found = credentials.get((name, mechanism))
        if found is None or found.iterations < FEWEST_ITERATIONS:
            return made_up
        return Known(found, Principal(USER, name))

    def of_token(self, mechanism: ScramMechanism, token_id: str) -> Known:
        """A token has no salt of its own: it gets the one that its id would have if there were no such token."""
        made_up = self._made_up(_Looks(), mechanism, token_id)
        return self._tokens.known(mechanism, token_id, made_up.credential.salt) or made_up

    def _common(self, credentials: Credentials, mechanism: ScramMechanism) -> _Looks:
        """As most users of the mechanism look, whatever the order in which a broker heard of them."""
        if self._looks[0] is not credentials:
            self._looks = credentials, {}
        known = self._looks[1]
        if mechanism not in known:
            known[mechanism] = _most_common(
                _Looks(len(each.salt), each.iterations)
                for (_, other), each in credentials.items()
                if other == mechanism and each.iterations >= FEWEST_ITERATIONS
            )
        return known[mechanism]

    def _made_up(self, looks: _Looks, mechanism: ScramMechanism, name: str) -> Known:
        """Looks like another user's of the same mechanism; no proof fits it."""
        key = self._decoy_key() or self._own_key
        seed = hmac.digest(key, f"{mechanism} {name}".encode("utf-8", "surrogatepass"), "sha512")
        size = mechanism.digest_bytes
        keys = secrets.token_bytes(size), secrets.token_bytes(size)
        salt = hashlib.shake_256(seed).digest(looks.salt_bytes)
        return Known(ScramCredential(salt, *keys, looks.iterations), None)


def _most_common(looks: Iterable[_Looks]) -> _Looks:
    counts = Counter(looks)
    return max(counts, key=lambda each: (counts[each], each), default=_Looks())
