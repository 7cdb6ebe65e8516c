"""Credentials for SCRAM: those of users, and made-up ones for names that nobody has.

A client must not learn from the answer who exists. So a name that nobody has is given a salt, the same each time, and
as many iterations as the others have; both are computed for names that exist, too, so that it takes the same time.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Protocol

from barnabas.security.credentials import ScramCredential, ScramMechanism
from barnabas.security.principal import USER, Principal
from barnabas.security.sasl.scram import Known
from barnabas.security.scram import FEWEST_ITERATIONS, SALT_BYTES

_LOOKED_AT = 8  # credentials of others, to look like them

Credentials = Mapping[Any, ScramCredential]
"""By name and mechanism, as the cluster's metadata have them."""


class Tokens(Protocol):
    def known(self, mechanism: ScramMechanism, token_id: str) -> Known | None:
        """What is known of a delegation token that has not expired."""
        ...


class NoTokens:
    def known(self, mechanism: ScramMechanism, token_id: str) -> Known | None:
        return None


class StoredUsers:
    """The users in the cluster's metadata, as they are at the moment of the question."""

    def __init__(self, credentials: Callable[[], Credentials], tokens: Tokens | None = None) -> None:
        self._credentials = credentials
        self._tokens = tokens or NoTokens()
        self._secret = secrets.token_bytes(32)

    def of_user(self, mechanism: ScramMechanism, name: str) -> Known:
        credentials = self._credentials()
        made_up = self._made_up(credentials, mechanism, name)
        found = credentials.get((name, mechanism))
        if found is None or found.iterations < FEWEST_ITERATIONS:
            return made_up
        return Known(found, Principal(USER, name))

    def of_token(self, mechanism: ScramMechanism, token_id: str) -> Known:
        made_up = self._made_up({}, mechanism, token_id)
        return self._tokens.known(mechanism, token_id) or made_up

    def _made_up(self, credentials: Credentials, mechanism: ScramMechanism, name: str) -> Known:
        """Looks like another user's of the same mechanism; no proof fits it."""
        salt_bytes, iterations = SALT_BYTES, FEWEST_ITERATIONS
        for (_, other), credential in islice(credentials.items(), _LOOKED_AT):
            if other == mechanism and credential.iterations >= FEWEST_ITERATIONS:
                salt_bytes, iterations = len(credential.salt), credential.iterations
        seed = hmac.digest(self._secret, f"{mechanism} {name}".encode("utf-8", "surrogatepass"), "sha512")
        size = mechanism.digest_bytes
        keys = secrets.token_bytes(size), secrets.token_bytes(size)
        credential = ScramCredential((seed * 4)[:salt_bytes], *keys, iterations)
        return Known(credential, None)
