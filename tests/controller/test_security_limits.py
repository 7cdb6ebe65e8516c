"""Limits of ACLs, credentials and quotas in the metadata."""

from __future__ import annotations

from barnabas.cluster.deltas import apply
from barnabas.cluster.image import EMPTY_IMAGE
from barnabas.cluster.snapshots import image_from_snapshot, snapshot_of
from barnabas.common.cooperative import finish
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.controller.acls import change_acls, create_acls
from barnabas.controller.client_quotas import MAX_CHANGES, Alteration, alter_client_quotas
from barnabas.controller.scram_credentials import DECOY_KEY_BYTES, Deletion, Upsertion, alter_credentials
from barnabas.security.authn.credentials import ScramCredential
from barnabas.security.authz.acls import AclBinding

ACLS = [AclBinding(2, f"topic-{number}", 3, "User:alice", "*", 3, 3) for number in range(4)]
CREDENTIAL = ScramCredential(b"salt", b"stored", b"server", 4096)


def codes(results: list[KafkaError | None]) -> list[ErrorCode | None]:
    return [None if error is None else error.code for error in results]


def quota(user: str, value: float | None = 1.0) -> Alteration:
    return Alteration([("user", user)], [("producer_byte_rate", value)])


def test_acls_beyond_the_limit_are_refused_and_those_that_are_there_are_not() -> None:
    plan = finish(create_acls(EMPTY_IMAGE.acls, [ACLS[0], ACLS[1], ACLS[0], ACLS[2]], limit=2))
    deltas, results = change_acls(EMPTY_IMAGE, plan)
    assert isinstance(results, list)
    assert codes(results) == [None, None, None, ErrorCode.POLICY_VIOLATION]
    image = apply(EMPTY_IMAGE, deltas)
    assert len(image.acls) == 2
    plan = finish(create_acls(image.acls, [ACLS[1], ACLS[3]], limit=2))
    deltas, results = change_acls(image, plan)
    assert isinstance(results, list)
    assert codes(results) == [None, ErrorCode.POLICY_VIOLATION]
    assert not deltas


def test_credentials_beyond_the_limit_are_refused_but_changed_and_deleted() -> None:
    wanted = [Upsertion(user, 1, CREDENTIAL) for user in ("a", "b", "c")]
    deltas, results = alter_credentials(EMPTY_IMAGE, wanted, limit=2)
    assert codes(list(results.values())) == [None, None, ErrorCode.POLICY_VIOLATION]
    image = apply(EMPTY_IMAGE, deltas)
    again: list[Deletion | Upsertion] = [Upsertion("a", 1, CREDENTIAL), Deletion("b", 1), Deletion("d", 1)]
    _, results = alter_credentials(image, again, limit=1)
    assert codes(list(results.values())) == [None, None, ErrorCode.RESOURCE_NOT_FOUND]


def test_first_credential_creates_a_permanent_key() -> None:
    first = apply(EMPTY_IMAGE, alter_credentials(EMPTY_IMAGE, [Upsertion("a", 1, CREDENTIAL)])[0])
    assert len(first.scram_decoy_key) == DECOY_KEY_BYTES
    last = apply(first, alter_credentials(first, [Deletion("a", 1)])[0])
    again = apply(last, alter_credentials(last, [Upsertion("b", 1, CREDENTIAL)])[0])
    assert first.scram_decoy_key == last.scram_decoy_key == again.scram_decoy_key
    assert image_from_snapshot(snapshot_of(again), again.offset) == again


def test_entities_beyond_the_limit_get_no_quotas_but_those_that_have_some_may_change_them() -> None:
    deltas, results = alter_client_quotas(EMPTY_IMAGE, [quota("a"), quota("b"), quota("c")], limit=2)
    assert codes(results) == [None, None, ErrorCode.POLICY_VIOLATION]
    assert results[2] is not None
    assert "barnabas.quotas.max.entities" in results[2].message
    image = apply(EMPTY_IMAGE, deltas)
    _, results = alter_client_quotas(image, [quota("a", 2.0), quota("b", None), quota("x", None)], limit=2)
    assert codes(results) == [None, None, None]


def test_more_changes_of_an_entity_than_there_are_keys_are_refused_alone() -> None:
    removals = [(f"key-{number}", None) for number in range(MAX_CHANGES + 1)]
    wanted = [Alteration([("user", "a")], removals), quota("b"), Alteration([("user", "c")], removals[1:])]
    deltas, results = alter_client_quotas(EMPTY_IMAGE, wanted)
    assert codes(results) == [ErrorCode.INVALID_REQUEST, None, None]
    assert len(deltas) == 1
