"""Selection of sessions that were opened with a changed or deleted credential."""

from __future__ import annotations

from barnabas.broker.security.access import revoked_by
from barnabas.cluster.deltas import DelegationTokenRemoved, ScramCredentialChanged, TopicDeleted
from barnabas.common.types import new_uuid
from barnabas.security.authn.credentials import ScramMechanism
from barnabas.security.authn.sasl.login import SaslLogin, SaslState
from barnabas.security.principal import Principal

ALICE = Principal("User", "alice")
SHA_256, SHA_512 = (each.sasl_name for each in ScramMechanism)
DELETED = ScramCredentialChanged("alice", ScramMechanism.SHA_256, None)


def login(mechanism: str, principal: Principal | None = ALICE, token_id: str | None = None) -> SaslLogin:
    made = SaslLogin({})
    made.mechanism, made.principal, made.token_id = mechanism, principal, token_id
    made.state = SaslState.EXCHANGE if principal is None else SaslState.DONE
    return made


def test_a_password_counts_for_one_mechanism_of_one_user() -> None:
    revoked = revoked_by([DELETED])
    assert revoked.was_used_in(login(SHA_256))
    assert not revoked.was_used_in(login(SHA_512))
    assert not revoked.was_used_in(login("PLAIN"))
    assert not revoked.was_used_in(login(SHA_256, Principal("User", "bob")))


def test_a_token_is_neither_its_owners_password_nor_another_token() -> None:
    owner = ALICE._replace(is_token_authenticated=True)
    revoked = revoked_by([DelegationTokenRemoved("t1")])
    assert revoked.was_used_in(login(SHA_256, owner, "t1"))
    assert not revoked.was_used_in(login(SHA_256, owner, "t2"))
    assert not revoked.was_used_in(login(SHA_256))
    assert not revoked_by([DELETED]).was_used_in(login(SHA_256, owner, "t1"))


def test_connection_before_its_login_starts_over() -> None:
    """The broker may have shown it the salt of the old password."""
    revoked = revoked_by([DELETED])
    assert revoked.was_used_in(login(SHA_512, None))
    assert not revoked.was_used_in(login("PLAIN", None))


def test_other_changes_revoke_nothing() -> None:
    assert not revoked_by([TopicDeleted(new_uuid())])
