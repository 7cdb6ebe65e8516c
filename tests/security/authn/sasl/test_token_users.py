"""Delegation tokens as SCRAM users."""

from __future__ import annotations

from barnabas.security.authn.credentials import DelegationToken, ScramMechanism
from barnabas.security.authn.sasl.scram_users import StoredTokens
from barnabas.security.authn.scram import matches
from barnabas.security.authn.tokens import password_of
from barnabas.security.principal import Principal

SHA_256 = ScramMechanism.SHA_256
TOKEN = DelegationToken("t", "User:alice", "User:alice", (), 0, 1500, 1500)


def test_a_token_is_its_owner_until_it_expires() -> None:
    now_ms = 1000
    tokens = StoredTokens(lambda: {"t": TOKEN}, "key", lambda: now_ms)

    known = tokens.known(SHA_256, "t", b"salt")
    assert known is not None
    assert matches(known.credential, SHA_256, password_of("t", "key"))
    assert (known.principal, known.expires_ms) == (Principal("User", "alice", True), 1500)
    now_ms = 2000
    assert tokens.known(SHA_256, "t", b"salt") is None


def test_without_a_key_there_are_no_tokens() -> None:
    assert StoredTokens(lambda: {"t": TOKEN}, None, lambda: 0).known(SHA_256, "t", b"salt") is None
