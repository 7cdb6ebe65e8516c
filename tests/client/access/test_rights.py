"""Effective rights equal the decisions of brokers for every resource type."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from barnabas.client.access import logins, probes
from barnabas.client.access.acls import create_acls, delete_acls
from barnabas.client.access.logins import KafkaUsers, password_login
from barnabas.client.cluster import Client
from barnabas.client.errors import AuthenticationError
from barnabas.client.security.parsing import parse_security
from barnabas.security.authz.acl_filters import AclFilter
from barnabas.security.authz.acls import AclBinding
from barnabas.security.authz.authorizer import CLUSTER_NAME, Action, Operation, ResourceType
from barnabas.testing import EmbeddedBroker

LITERAL, ALLOW = 3, 3
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
USERS = {"admin": "admin's", "alice": "alice's"}
KINDS = sorted({*probes._PROBES, (ResourceType.TOPIC, Operation.DESCRIBE)})


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    settings = {"authorizer.class.name": AUTHORIZER, "super.users": "User:admin"}
    with EmbeddedBroker(settings, security="SASL_PLAINTEXT", users=USERS) as running:
        running.create_topic("there")
        yield running


@pytest.fixture(autouse=True)
def rights_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "REMEMBERED", 0.0)


@pytest.mark.parametrize("name", ["there", "nowhere"])
@pytest.mark.parametrize(("kind", "operation"), KINDS, ids=lambda one: one.name)
def test_a_right_is_seen_with_the_acl_that_gives_it_and_not_with_another(
    broker: EmbeddedBroker, kind: ResourceType, operation: Operation, name: str
) -> None:
    on = CLUSTER_NAME if kind is ResourceType.CLUSTER else name

    async def before_and_after() -> tuple[bool, bool]:
        security = parse_security(broker.clients_of("admin").java)
        users = KafkaUsers(broker.bootstrap_servers, security, "test")
        async with Client(broker.bootstrap_servers, security=security) as admin:
            alice = await users.user(password_login("alice", "alice's", security))
            await delete_acls(admin, [AclFilter(principal="User:alice")])
            before = await alice.allows(Action(operation, kind, on))
            acl = AclBinding(kind, on, LITERAL, "User:alice", "*", operation, ALLOW)
            await create_acls(admin, [acl])
            after = await alice.allows(Action(operation, kind, on))
            await users.close()
            return before, after

    assert asyncio.run(before_and_after()) == (False, True)


def test_a_wrong_password_is_an_authentication_error(broker: EmbeddedBroker) -> None:
    security = parse_security(broker.clients_of("admin").java)

    async def log_in() -> None:
        users = KafkaUsers(broker.bootstrap_servers, security, "test")
        await users.user(password_login("alice", "wrong", security))

    with pytest.raises(AuthenticationError):
        asyncio.run(log_in())


@pytest.mark.parametrize("header", ["", "Basic", "Basic !!", "Digest x", "Bearer ", "Basic " + "A" * 20_000])
def test_malformed_header_is_rejected_before_a_broker_is_asked(header: str) -> None:
    with pytest.raises(AuthenticationError):
        logins.login_from(header, parse_security({}))
