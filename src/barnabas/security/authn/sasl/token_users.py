"""Delegation tokens as names that log in over SCRAM (KIP-48)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from barnabas.security.authn.credentials import DelegationToken, ScramMechanism
from barnabas.security.principal import Principal
from barnabas.security.authn.sasl.scram import Known
from barnabas.security.authn.tokens import credential_of, is_expired


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
