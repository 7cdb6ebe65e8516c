"""Limits beyond Kafka's checks, and large security requests."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.controller.acls import MAX_CHANGED
from barnabas.controller.delegation_tokens import MAX_RENEWERS
from barnabas.handlers.security.scram_credentials import MAX_ALTERATIONS
from barnabas.network.requests.rules import OPEN, RequestSecurity
from barnabas.protocol.messages.acls import (
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from barnabas.protocol.messages.sasl import DescribeUserScramCredentialsRequest
from barnabas.protocol.messages.tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from barnabas.protocol.schema import Message
from barnabas.security.authz.authorizer import AllowAll
from barnabas.security.principal import Principal
from barnabas.testing import EmbeddedBroker
from tests.handlers.security.questions import (
    ANY,
    MATCH,
    MUTATIONS,
    PRODUCE,
    REQUESTS,
    altering,
    altering_users,
    describing,
    describing_users,
    quota,
    rule,
    selecting,
    upserting,
)
from tests.support.clients import RawConnection

TOKENS = 3
TOKEN_REQUESTS = [
    (CreateDelegationTokenRequest(max_lifetime_ms=-1), 3),
    (RenewDelegationTokenRequest(b"x", -1), 2),
    (ExpireDelegationTokenRequest(b"x", -1), 2),
    (DescribeDelegationTokenRequest(None), 3),
]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    settings = {"delegation.token.secret.key": "k", "barnabas.delegation.tokens.max": str(TOKENS)}
    with EmbeddedBroker(settings=settings) as running:
        running.broker.dispatcher.use(RequestSecurity(authorizer=AllowAll()))
        yield running


def ask(broker: EmbeddedBroker, message: Message, version: int, principal: Principal | None = None) -> Any:
    with RawConnection(broker.port, timeout=60) as connection:
        if principal is not None:
            become(broker, connection, principal)
        return connection.ask(message, version)


def become(broker: EmbeddedBroker, connection: RawConnection, principal: Principal) -> None:
    connection.ask(DescribeUserScramCredentialsRequest(None), 0)
    for one in list(broker.broker.sockets.connections):
        one.context = one.context.authenticated(principal)


def test_without_an_authorizer_acls_are_not_managed(broker: EmbeddedBroker) -> None:
    broker.broker.dispatcher.use(OPEN)
    try:
        disabled = ErrorCode.SECURITY_DISABLED
        assert ask(broker, DescribeAclsRequest(**selecting()), 3).error_code == disabled
        assert ask(broker, CreateAclsRequest([rule()]), 3).results[0].error_code == disabled
        filters = [DeleteAclsFilter(**selecting())]
        assert ask(broker, DeleteAclsRequest(filters), 3).filter_results[0].error_code == disabled
    finally:
        broker.broker.dispatcher.use(RequestSecurity(authorizer=AllowAll()))


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type": ANY},
        {"resource_pattern_type": ANY},
        {"resource_pattern_type": MATCH},
        {"operation": ANY},
        {"permission_type": ANY},
    ],
    ids=str,
)
def test_a_rule_with_the_words_of_a_filter_is_refused(broker: EmbeddedBroker, wrong: dict[str, int]) -> None:
    (result,) = ask(broker, CreateAclsRequest([rule(**wrong)]), 3).results
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert result.error_message.split()[-1] in ("ANY", "MATCH")


@contextmanager
def one_entry(broker: EmbeddedBroker) -> Iterator[None]:
    """Metadata entries are atomic across a crash."""
    before = broker.broker.image.offset
    yield
    assert broker.broker.image.offset == before + 1


def test_thousands_of_rules_are_created_described_and_deleted_in_order(broker: EmbeddedBroker) -> None:
    wanted = [rule(f"many-{number}" if number % 500 else "") for number in range(3000)]
    with one_entry(broker):
        results = ask(broker, CreateAclsRequest(wanted), 3).results
    refused = [number for number, result in enumerate(results) if result.error_code]
    assert refused == list(range(0, 3000, 500))
    shown = ask(broker, DescribeAclsRequest(**selecting(resource_name_filter="many-7")), 3)
    assert [resource.resource_name for resource in shown.resources] == ["many-7"]
    names = [f"many-{number}" for number in range(1, 40)]
    filters = [DeleteAclsFilter(**selecting(resource_name_filter=name)) for name in names]
    with one_entry(broker):
        removed = ask(broker, DeleteAclsRequest(filters), 3)
    assert [[acl.resource_name for acl in one.matching_acls] for one in removed.filter_results] == [
        [n] for n in names
    ]
    everything = ask(broker, DeleteAclsRequest([DeleteAclsFilter(**selecting())]), 3)
    assert len(everything.filter_results[0].matching_acls) == 3000 - 6 - 39
    assert not broker.broker.image.acls


def test_a_request_changes_a_bounded_number_of_rules_or_none(broker: EmbeddedBroker) -> None:
    wanted = [rule(f"many-{number}") for number in range(MAX_CHANGED + 1)]
    results = ask(broker, CreateAclsRequest(wanted), 3).results
    assert len(results) == MAX_CHANGED + 1
    assert {result.error_code for result in results} == {ErrorCode.POLICY_VIOLATION}
    assert not broker.broker.image.acls
    with one_entry(broker):
        ask(broker, CreateAclsRequest(wanted[1:]), 3)
    ask(broker, CreateAclsRequest(wanted[:1]), 3)
    everything = DeleteAclsRequest([DeleteAclsFilter(**selecting())])
    (refused,) = ask(broker, everything, 3).filter_results
    assert refused.error_code == ErrorCode.POLICY_VIOLATION
    assert len(broker.broker.image.acls) == MAX_CHANGED + 1
    ask(broker, DeleteAclsRequest([DeleteAclsFilter(**selecting(resource_name_filter="many-0"))]), 3)
    with one_entry(broker):
        ask(broker, everything, 3)
    assert not broker.broker.image.acls


def test_a_thousand_quotas_are_changed_at_once(broker: EmbeddedBroker) -> None:
    users = [[("user", f"u{number}")] for number in range(1000)]
    with one_entry(broker):
        ask(broker, *altering(*(quota(user, (PRODUCE, 1e6)) for user in users)))
    assert len(broker.broker.image.client_quotas) == 1000
    with one_entry(broker):
        ask(broker, *altering(*(quota(user, (PRODUCE, 0.0, True)) for user in users)))
    assert not broker.broker.image.client_quotas


def test_names_as_long_as_names_can_be_are_answered(broker: EmbeddedBroker) -> None:
    longest = "x" * 32767
    (shown,) = ask(broker, *describing_users(longest)).results
    assert (shown.user, shown.error_code) == (longest, ErrorCode.RESOURCE_NOT_FOUND)
    (result,) = ask(broker, CreateAclsRequest([rule(longest, principal=longest)]), 3).results
    assert result.error_code == ErrorCode.INVALID_REQUEST
    (entry,) = ask(broker, *altering(quota([("user", longest)], (longest, 1.0)))).entries
    assert entry.error_code == ErrorCode.INVALID_REQUEST
    assert ask(broker, *describing((longest, 0, longest))).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_credential_without_a_salted_password_is_refused(broker: EmbeddedBroker) -> None:
    (result,) = ask(broker, *altering_users(upserting("ida", salted_password=b""))).results
    assert (result.user, result.error_code) == ("ida", ErrorCode.UNACCEPTABLE_CREDENTIAL)
    assert not broker.broker.image.scram_credentials


def test_salts_and_salted_passwords_of_any_length_are_accepted_as_in_kafka(broker: EmbeddedBroker) -> None:
    for wanted in (
        upserting("ida", salt=b""),
        upserting("ida", salted_password=b"short"),
        upserting("ida", salted_password=b"p" * 100),
    ):
        (result,) = ask(broker, *altering_users(wanted)).results
        assert (result.user, result.error_code) == ("ida", ErrorCode.NONE), wanted
        (shown,) = ask(broker, *describing_users("ida")).results
        assert shown.error_code == ErrorCode.NONE
    ask(broker, *altering_users(deletions=[("ida", 1)]))


def test_a_request_alters_a_bounded_number_of_users(broker: EmbeddedBroker) -> None:
    many = [upserting(f"user-{number}") for number in range(MAX_ALTERATIONS + 1)]
    results = ask(broker, *altering_users(*many)).results
    assert {result.error_code for result in results} == {ErrorCode.POLICY_VIOLATION}
    assert len(results) == len(many)
    results = ask(broker, *altering_users(*many[1:])).results
    assert {result.error_code for result in results} == {ErrorCode.NONE}
    shown = ask(broker, DescribeUserScramCredentialsRequest(None), 0)
    assert len(shown.results) == MAX_ALTERATIONS
    removed = [(one.name, one.mechanism) for one in many[1:]]
    ask(broker, *altering_users(deletions=removed))
    assert not broker.broker.image.scram_credentials


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_quota_is_a_finite_number(broker: EmbeddedBroker, value: float) -> None:
    (entry,) = ask(broker, *altering(quota([("user", "alice")], (REQUESTS, value)))).entries
    assert entry.error_code == ErrorCode.INVALID_REQUEST
    assert not broker.broker.image.client_quotas


def test_an_entity_that_is_named_twice_is_not_changed(broker: EmbeddedBroker) -> None:
    alice = [("user", "alice")]
    twice = [
        quota(alice, (PRODUCE, 1.0)),
        quota(alice, (MUTATIONS, 2.0)),
        quota([("user", "bob")], (PRODUCE, 3.0)),
    ]
    for entries in (twice, [quota(alice, (PRODUCE, 1.0), (PRODUCE, 2.0))]):
        answer = ask(broker, *altering(*entries))
        refused = [entry for entry in answer.entries if entry.error_code]
        assert {entry.entity[0].entity_name for entry in refused} == {"alice"}
        assert "duplicate" in refused[0].error_message
    (entry,) = ask(broker, *describing()).entries
    assert (entry.entity[0].entity_name, entry.values[0].value) == ("bob", 3.0)
    ask(broker, *altering(quota([("user", "bob")], (PRODUCE, 0.0, True))))
    assert not broker.broker.image.client_quotas


ALICE = Principal("User", "alice")


@pytest.mark.parametrize(("message", "version"), TOKEN_REQUESTS, ids=lambda value: type(value).__name__)
def test_tokens_are_only_for_clients_authenticated_otherwise(
    broker: EmbeddedBroker, message: Message, version: int
) -> None:
    refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert ask(broker, message, version).error_code == refused
    by_token = ALICE._replace(is_token_authenticated=True)
    assert ask(broker, message, version, by_token).error_code == refused
    assert ask(broker, message, version, ALICE).error_code != refused


@pytest.mark.parametrize(("message", "version"), TOKEN_REQUESTS, ids=lambda value: type(value).__name__)
def test_without_a_secret_key_there_are_no_tokens(
    broker: EmbeddedBroker, message: Message, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker.broker.delegation_tokens, "secrets", None)
    assert ask(broker, message, version, ALICE).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_there_are_a_bounded_number_of_tokens_and_of_renewers(broker: EmbeddedBroker) -> None:
    crowd = [CreatableRenewers("User", f"u{number}") for number in range(MAX_RENEWERS + 1)]
    answer = ask(broker, CreateDelegationTokenRequest(renewers=crowd, max_lifetime_ms=-1), 3, ALICE)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    request = CreateDelegationTokenRequest(max_lifetime_ms=-1)
    left = TOKENS - len(broker.broker.image.delegation_tokens)
    made = [ask(broker, request, 3, ALICE) for _ in range(left + 1)]
    assert [answer.error_code for answer in made] == [ErrorCode.NONE] * left + [ErrorCode.POLICY_VIOLATION]
    for answer in made[:-1]:
        assert (
            ask(broker, ExpireDelegationTokenRequest(answer.hmac, -1), 2, ALICE).error_code == ErrorCode.NONE
        )


def test_refused_requests_are_not_kept(broker: EmbeddedBroker) -> None:
    """An error that is raised again and again keeps the frames of all its tracebacks, and their requests with them."""
    broker.broker.dispatcher.use(OPEN)
    try:
        message = DeleteAclsRequest([DeleteAclsFilter(**selecting(resource_name_filter="never kept"))])
        for _ in range(3):
            ask(broker, message, 3)
        gc.collect()
        kept = [each for each in gc.get_objects() if isinstance(each, DeleteAclsFilter)]
        named = [each for each in kept if each.resource_name_filter == "never kept"]
        assert named == message.filters
    finally:
        broker.broker.dispatcher.use(RequestSecurity(authorizer=AllowAll()))
