"""Credentials that do not count any more: which sessions have begun with them.

With `barnabas.credential.change.ends.sessions` those sessions end. Every broker learns of the change from the metadata
log, so it works wherever the change was asked for, and by whichever tool.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.cluster.deltas import DelegationTokenRemoved, Delta, ScramCredentialChanged
from barnabas.security.authn.credentials import ScramMechanism
from barnabas.security.authn.sasl.login import Login, State

_SASL_NAMES = {int(each): each.sasl_name for each in ScramMechanism}


class Revoked(NamedTuple):
    """What an entry of the metadata log takes back."""

    users: frozenset[tuple[str, str]]
    """Names, each with a mechanism: a user may have another password for each."""
    tokens: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.users or self.tokens)

    def was_used_in(self, login: Login) -> bool:
        if login.principal is None:
            # It may be about to finish with the old credential: it begins again.
            return login.state is State.EXCHANGE and login.mechanism in _SASL_NAMES.values()
        if login.token_id is not None:
            return login.token_id in self.tokens
        return (login.principal.name, login.mechanism) in self.users


def revoked_by(deltas: Iterable[Delta]) -> Revoked:
    users, tokens = set(), set()
    for delta in deltas:
        if isinstance(delta, ScramCredentialChanged) and delta.mechanism in _SASL_NAMES:
            users.add((delta.user, _SASL_NAMES[delta.mechanism]))
        elif isinstance(delta, DelegationTokenRemoved):
            tokens.add(delta.token_id)
    return Revoked(frozenset(users), frozenset(tokens))
