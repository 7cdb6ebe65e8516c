"""A broker with `authorizer.class.name` authorizes clients by the ACLs in the cluster's metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from barnabas.cluster.deltas import AclsChanged
from barnabas.common.errors import ErrorCode
from barnabas.handlers.envelope import wrap
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from barnabas.security.authz.acls import AclBinding, PatternType, Permission
from barnabas.security.authz.authorizer import Operation, ResourceType
from barnabas.security.context import RequestContext
from barnabas.security.principal import Principal
from barnabas.testing import EmbeddedBroker
from tests.support.clients import RawConnection
from tests.support.server import brokers_let_in

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
EVERYBODY = "User:ANONYMOUS"  # on a listener that does not authenticate


def on_topic(name: str, operation: Operation, permission: Permission = Permission.ALLOW) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, PatternType.LITERAL, EVERYBODY, "*", operation, permission)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker({"authorizer.class.name": STANDARD, "super.users": "User:admin"}) as running:
        yield running


def change(broker: EmbeddedBroker, *added: AclBinding, removed: tuple[AclBinding, ...] = ()) -> None:
    """As the controller would do it for CreateAcls and DeleteAcls."""

    async def submit() -> None:
        await broker.broker.controller.submit(lambda image: ([AclsChanged(removed, added)], None))

    asyncio.run_coroutine_threadsafe(submit(), broker.broker.loop).result(60)


def errors(broker: EmbeddedBroker, *names: str) -> dict[str, int]:
    wanted = MetadataRequest([MetadataRequestTopic(name=name) for name in names])
    with RawConnection(broker.port, timeout=60) as connection:
        answer: Any = connection.ask(wanted, 9)
    return {topic.name: topic.error_code for topic in answer.topics}


def test_actions_are_denied_until_an_acl_allows_them(broker: EmbeddedBroker) -> None:
    assert errors(broker, "orders") == {"orders": DENIED}
    create, see = on_topic("orders", Operation.CREATE), on_topic("orders", Operation.DESCRIBE)
    change(broker, see)
    assert errors(broker, "orders") == {"orders": DENIED}  # it would be created
    assert "orders" not in broker.broker.image.topics
    change(broker, create)
    assert errors(broker, "orders", "others") == {"orders": ErrorCode.NONE, "others": DENIED}
    change(broker, removed=(create,))
    assert errors(broker, "orders") == {"orders": ErrorCode.NONE}
    change(broker, removed=(see,))
    assert errors(broker, "orders") == {"orders": DENIED}


def test_a_forged_envelope_is_refused(broker: EmbeddedBroker) -> None:
    """Even on a broker listener: a client without ClusterAction sends a request on behalf of a super user."""
    admin = RequestContext(Principal("User", "admin"), "PLAINTEXT", "127.0.0.1")
    wanted = CreateTopicsRequest([CreatableTopic("forged", 1, 1)], 10_000)
    with RawConnection(broker.port) as connection:
        for let_in in (nullcontext(), brokers_let_in(broker)):
            with let_in:
                answer: Any = connection.ask(wrap(wanted, 7, admin), 0)
            assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert "forged" not in broker.broker.image.topics


def test_the_acls_are_there_again_after_a_restart(broker: EmbeddedBroker) -> None:
    rules = on_topic("kept", Operation.CREATE), on_topic("kept", Operation.DESCRIBE)
    change(broker, *rules)
    broker.restart()
    assert errors(broker, "kept", "others") == {"kept": ErrorCode.NONE, "others": DENIED}
