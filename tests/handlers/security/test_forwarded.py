"""Security requests are forwarded to the controller with the client's principal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.acls import CreateAclsRequest
from barnabas.protocol.messages.tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from barnabas.protocol.schema import Message
from barnabas.security.principal import Principal
from barnabas.security.quotas.filters import QuotaEntity
from tests.handlers.security.questions import altering, altering_users, describing, quota, rule, upserting
from tests.support.clients import RawConnection
from tests.support.clusters import Brokers

SETTINGS = {
    "listeners": "CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "of both",
}
ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with Brokers(tmp_path_factory.mktemp("cluster"), 2, SETTINGS) as running:
        yield running


def bystander(cluster: Brokers) -> Any:
    """The broker that is not the controller."""
    (number,) = cluster.brokers.keys() - {cluster.controller}
    return cluster.brokers[number]


def ask(cluster: Brokers, message: Message, version: int, principal: Principal | None = None) -> Any:
    broker = bystander(cluster)
    with RawConnection(broker.listeners[0].port, timeout=60) as connection:
        if principal is not None:
            connection.ask(*describing())
            for one in list(broker.sockets.connections):
                if one.listener.name == "CLIENTS":
                    one.context = one.context.authenticated(principal)
        return connection.ask(message, version)


def known(cluster: Brokers, condition: Any) -> None:
    """Wait until the forwarding broker has the controller's decision."""
    cluster.run(bystander(cluster).metadata.until(condition))


def test_forwarded_request_is_decided_and_known_on_all_brokers(cluster: Brokers) -> None:
    assert not ask(cluster, CreateAclsRequest([rule()]), 3).results[0].error_code
    assert (
        not ask(cluster, *altering(quota([("user", "alice")], ("request_percentage", 50.0))))
        .entries[0]
        .error_code
    )
    assert not ask(cluster, *altering_users(upserting("carol"))).results[0].error_code
    known(
        cluster,
        lambda image: (
            len(image.acls) == 1
            and QuotaEntity("alice") in image.client_quotas
            and len(image.scram_credentials) == 1
        ),
    )


def test_a_token_belongs_to_the_client_of_the_broker_that_forwarded(cluster: Brokers) -> None:
    wanted = CreateDelegationTokenRequest(renewers=[CreatableRenewers("User", "bob")], max_lifetime_ms=-1)
    made = ask(cluster, wanted, 3, ALICE)
    assert (made.error_code, made.principal_name) == (ErrorCode.NONE, "alice")
    known(cluster, lambda image: made.token_id in image.delegation_tokens)
    shown = ask(cluster, DescribeDelegationTokenRequest(None), 3, BOB).tokens
    assert [(token.token_id, token.hmac) for token in shown] == [(made.token_id, made.hmac)]
    assert not ask(cluster, RenewDelegationTokenRequest(made.hmac, 1000), 2, BOB).error_code
    stranger = Principal("User", "eve")
    refused = ask(cluster, ExpireDelegationTokenRequest(made.hmac, -1), 2, stranger).error_code
    assert refused == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert not ask(cluster, ExpireDelegationTokenRequest(made.hmac, -1), 2, ALICE).error_code


def test_rights_are_those_of_the_client_and_not_of_the_broker(cluster: Brokers) -> None:
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert ask(cluster, CreateAclsRequest([rule("other")]), 3, ALICE).results[0].error_code == denied
    assert ask(cluster, *altering_users(upserting("dave")), ALICE).results[0].error_code == denied
    entry = quota([("user", "alice")], ("request_percentage", 100.0))
    assert ask(cluster, *altering(entry), ALICE).entries[0].error_code == denied
    for_bob = CreateDelegationTokenRequest("User", "bob", [], -1)
    refused = ask(cluster, for_bob, 3, ALICE).error_code
    assert refused == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    by_token = ALICE._replace(is_token_authenticated=True)
    not_allowed = ask(cluster, CreateDelegationTokenRequest(max_lifetime_ms=-1), 3, by_token).error_code
    assert not_allowed == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
