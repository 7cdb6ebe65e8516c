"""The same delegation token requests to Apache Kafka and Barnabas must get the same responses."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.connection import BrokerConnection
from barnabas.client.security.guard import Guard
from barnabas.client.security.parsing import parse_security
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.acls import AclCreation, CreateAclsRequest, DescribeAclsRequest
from barnabas.protocol.messages.tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from barnabas.protocol.schema import Message, Struct
from barnabas.security.authz.authorizer import Action, Operation, ResourceType
from barnabas.testing import EmbeddedBroker
from tests.support.kafka.broker import ApacheKafka
from tests.support.programs import free_port
from tests.support.waiting import async_eventually

pytestmark = pytest.mark.java

USERS = ("alice", "bob", "carol", "dave")
KEY = "of all brokers"
ALLOWED = {
    "alice": [Action(Operation.CREATE_TOKENS, ResourceType.USER, "User:bob")],
    "dave": [Action(Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:alice")],
}
HOUR, DAY, WEEK = 3_600_000, 86_400_000, 604_800_000
Ask = Callable[[str, Message, int], Awaitable[Any]]


def creating(*renewers: str, owner: str | None = None, lifetime: int = -1, kind: str = "User") -> Message:
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(kind, name) for name in renewers], max_lifetime_ms=lifetime
    )
    if owner is not None:
        request.owner_principal_type, request.owner_principal_name = "User", owner
    return request


def describing(*owners: str) -> Message:
    return DescribeDelegationTokenRequest([DescribeDelegationTokenOwner("User", name) for name in owners])


async def story(ask: Ask) -> list[Any]:
    """Token requests and their responses."""
    answers: list[Any] = []
    secrets: list[bytes] = []

    async def tell(user: str, message: Message, version: int) -> Any:
        answer = await ask(user, message, version)
        answers.append((user, message, answer))
        return answer

    secrets += [(await tell("alice", creating(), version)).hmac for version in (1, 2, 3)]
    secrets.append((await tell("alice", creating("carol", lifetime=HOUR), 3)).hmac)
    secrets.append((await tell("alice", creating(owner="bob", lifetime=10 * WEEK), 3)).hmac)
    for message in (
        creating(owner="carol"),
        creating("carol", kind="Group"),
        creating(owner="alice"),
        creating(owner=""),
        creating(lifetime=0),
    ):
        await tell("alice", message, 3)
    for user in USERS:
        for message in (
            DescribeDelegationTokenRequest(None),
            describing(),
            describing("alice"),
            describing("bob"),
            describing("carol", "nobody"),
        ):
            await tell(user, message, 3)
    await tell("alice", describing("alice"), 1)
    for user, period in (("carol", -1), ("alice", HOUR), ("alice", 100 * WEEK), ("bob", -1), ("alice", 0)):
        await tell(user, RenewDelegationTokenRequest(secrets[3], period), 2)
    await tell("alice", RenewDelegationTokenRequest(secrets[4], HOUR), 1)
    await tell("bob", RenewDelegationTokenRequest(secrets[4], 2 * HOUR), 1)
    await tell("alice", RenewDelegationTokenRequest(b"unknown", -1), 2)
    await tell("bob", ExpireDelegationTokenRequest(secrets[0], -1), 2)
    await tell("alice", ExpireDelegationTokenRequest(secrets[0], HOUR), 2)
    await tell("alice", ExpireDelegationTokenRequest(secrets[0], -1), 1)
    await tell("alice", ExpireDelegationTokenRequest(secrets[0], -1), 2)
    await tell("carol", DescribeDelegationTokenRequest(None), 3)
    return answers


TIMES = ("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms")
SHOWN_TIMES = ("issue_timestamp", "expiry_timestamp", "max_timestamp")


def comparable(answers: Sequence[tuple[str, Message, Any]]) -> Iterator[Any]:
    """Secrets by the order of their appearance, times to the hour, and tokens without an order."""
    names: dict[Any, str] = {}
    for user, message, answer in answers:
        yield user, message.NAME, _plain(answer, names)


def _plain(value: Any, names: dict[Any, str]) -> Any:
    if isinstance(value, Struct):
        fields = {field.name: getattr(value, field.name) for field in value.FIELDS}
        issued = fields.get("issue_timestamp_ms", fields.get("issue_timestamp", 0))
        for name in TIMES + SHOWN_TIMES:
            if fields.get(name, -1) > 0:
                fields[name] = round((fields[name] - issued) / HOUR) if issued > 0 else "some time"
        for name in ("token_id", "hmac"):
            if fields.get(name):
                fields[name] = names.setdefault(fields[name], f"number {len(names)}")
        return {name: _plain(part, names) for name, part in fields.items() if name != "throttle_time_ms"}
    if isinstance(value, list):
        return sorted((_plain(item, names) for item in value), key=repr)
    return value


# -- both brokers ---------------------------------------------------------------------------------------

_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_LOGINS = " ".join(f'user_{user}="secret"' for user in USERS)
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{_MODULE} {_LOGINS};",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": KEY,
}


@contextmanager
def apache_kafka(folder: Path) -> Iterator[tuple[int, int]]:
    """The ports without and with authentication."""
    plain, secured, controllers = free_port(), free_port(), free_port()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{secured},"
        f"CONTROLLER://127.0.0.1:{controllers}",
        "controller.quorum.voters": f"1@127.0.0.1:{controllers}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        **SETTINGS,
    }
    with ApacheKafka(folder, port=plain, heap="256m", settings=settings):
        yield plain, secured


@contextmanager
def barnabas() -> Iterator[tuple[int, int]]:
    listeners = "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"
    with EmbeddedBroker(settings={"listeners": listeners, **SETTINGS}) as running:
        plain, secured = (listener.port for listener in running.broker.listeners)
        yield plain, secured


async def allow(port: int) -> None:
    connection = await BrokerConnection.connect("127.0.0.1", port)
    rules = [
        AclCreation(action.resource_type, action.name, 3, f"User:{user}", "*", action.operation, 3)
        for user, actions in ALLOWED.items()
        for action in actions
    ]
    answer = await connection.send(CreateAclsRequest(rules), 3)
    assert not any(result.error_code for result in answer.results)
    connection.close()


async def told_to(plain: int, secured: int) -> list[Any]:
    async with AsyncExitStack() as stack:
        connections = {user: await logged_in(user, secured) for user in USERS}
        admin = await BrokerConnection.connect("127.0.0.1", plain)
        for connection in (admin, *connections.values()):
            stack.callback(connection.close)
        numbers = count()
        await until_all_is_known(admin, next(numbers))

        async def ask(user: str, message: Message, version: int) -> Any:
            answer = await connections[user].send(message, version)
            if not isinstance(message, DescribeDelegationTokenRequest):
                await until_all_is_known(admin, next(numbers))
            return answer

        return await story(ask)


async def until_all_is_known(admin: BrokerConnection, number: int) -> None:
    """A Kafka broker applies decisions after the response, but in order: a visible ACL implies earlier ones."""
    name = f"barrier-{number}"
    acl = AclCreation(ResourceType.TOPIC, name, 3, "User:nobody", "*", Operation.READ, 3)
    answer = await admin.send(CreateAclsRequest([acl]), 3)
    assert not any(result.error_code for result in answer.results)
    shown = DescribeAclsRequest(ResourceType.TOPIC, name, 3, None, None, 1, 1)
    await async_eventually(lambda: admin.send(shown, 3), lambda answer: answer.resources)


async def logged_in(user: str, port: int) -> BrokerConnection:
    login = {"sasl.jaas.config": f'{_MODULE} username="{user}" password="secret";'}
    security = parse_security({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", **login})
    return await BrokerConnection.connect("127.0.0.1", port, guard=Guard(security))


def test_tokens_are_answered_as_by_apache_kafka(tmp_path: Path) -> None:
    with apache_kafka(tmp_path) as (plain, secured):
        asyncio.run(allow(plain))
        expected = list(comparable(asyncio.run(told_to(plain, secured))))
    with barnabas() as (plain, secured):
        asyncio.run(allow(plain))
        answers = asyncio.run(told_to(plain, secured))
    for index, (ours, their) in enumerate(zip(comparable(answers), expected, strict=True)):
        assert ours == their, (index, answers[index][1])
    created = [answer for _, message, answer in answers if isinstance(message, CreateDelegationTokenRequest)]
    for answer in created:
        if not answer.error_code:
            assert answer.hmac == hmac.digest(KEY.encode(), answer.token_id.encode(), hashlib.sha512)
    assert created[0].error_code == ErrorCode.NONE
