"""ACLs compared with Kafka's tool, and decisions compared with brokers: on Barnabas and Apache Kafka."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas.client.access.logins import KafkaUsers, password_login
from barnabas.client.admin import create_topic
from barnabas.client.cluster import Client
from barnabas.client.security.parsing import parse_security
from barnabas.security.authz.acls import SUPPORTED
from barnabas.security.authz.authorizer import CLUSTER_NAME, ResourceType
from barnabas.services.console.access.model import AccessSettings, LoginKind, LoginSettings
from barnabas.services.console.settings import ClusterSettings
from barnabas.testing import EmbeddedBroker
from tests.services.console.access.people import logged_in
from tests.services.console.web import CLUSTER, RunningConsole, Web, running_console
from tests.support.kafka.guarded import STANDARD, GuardedKafka
from tests.support.kafka.tools import run_tool
from tests.support.sasl import java_login, properties
from tests.support.waiting import eventually

pytestmark = pytest.mark.java

TOOL = "org.apache.kafka.tools.AclCommand"
LOGIN = java_login("PLAIN", "admin", "admin")
RULES: list[dict[str, Any]] = [
    {"permission": "allow", "principal": "User:asking", "operations": ["read"], "resource": "topic", "name": "orders"},
    {"permission": "allow", "principal": "User:asking", "operations": ["write", "alter-configs"], "resource": "topic",
     "name": "pay*"},
    {"permission": "deny", "principal": "User:asking", "operations": ["write"], "resource": "topic", "name": "payroll"},
    {"permission": "allow", "principal": "User:*", "operations": ["describe"], "resource": "group", "name": "*"},
    {"permission": "allow", "principal": "User:bob", "operations": ["all"], "resource": "cluster", "host": "10.0.0.1"},
    {"permission": "allow", "principal": "User:asking", "operations": ["describe"], "resource": "cluster"},
]  # fmt: skip
TOPICS = ("orders", "payments", "payroll", "others")


class Place(NamedTuple):
    bootstrap: str
    console: RunningConsole


@contextmanager
def barnabas(folder: Path) -> Iterator[str]:
    settings = {"authorizer.class.name": STANDARD, "super.users": "User:admin"}
    users = {"admin": "admin", "asking": "asking"}
    with EmbeddedBroker(settings, security="SASL_PLAINTEXT", users=users) as broker:
        yield broker.bootstrap_servers


@contextmanager
def apache_kafka(folder: Path) -> Iterator[str]:
    kafka = GuardedKafka(folder / "kafka")
    kafka.start()
    try:
        yield kafka.bootstrap_servers
    finally:
        kafka.stop()


@pytest.fixture(scope="module", params=[barnabas, apache_kafka], ids=["Barnabas", "Apache Kafka"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("place")
    security = parse_security(LOGIN)
    with request.param(folder) as bootstrap:
        asyncio.run(make_topics(bootstrap))
        cluster = ClusterSettings(CLUSTER, bootstrap, security)
        access = AccessSettings(LoginSettings(LoginKind.KAFKA))
        with running_console(bootstrap, folder / "data", clusters=(cluster,), access=access) as console:
            yield Place(bootstrap, console)


async def make_topics(bootstrap: str) -> None:
    async with Client(bootstrap, security=parse_security(LOGIN)) as client:
        for name in TOPICS:
            await create_topic(client, name)


def listed_by_kafka(place: Place, folder: Path) -> set[tuple[str, ...]]:
    """(permission, principal, operation, resource, name, pattern, host), as `kafka-acls --list` prints them."""
    config = folder / "client.properties"
    config.write_text(properties(LOGIN))
    arguments = ("--bootstrap-server", place.bootstrap, "--command-config", str(config), "--list")
    found: set[tuple[str, ...]] = set()
    pattern = ("", "", "")
    for line in run_tool(TOOL, *arguments).check().stdout.splitlines():
        if about := re.search(r"resourceType=(\w+), name=(.*), patternType=(\w+)\)", line):
            pattern = (about[1], about[2], about[3])
        elif rule := re.search(r"principal=(.*), host=(.*), operation=(\w+), permissionType=(\w+)\)", line):
            kind, name, form = pattern
            found.add((rule[4], rule[1], rule[3], kind, name, form, rule[2]))
    return found


def shown(web: Web) -> set[tuple[str, ...]]:
    names = ("permission", "principal", "operation", "resource", "name", "pattern", "host")
    return {
        tuple(_upper(name, rule[name]) for name in names) for rule in web.api("/access/acls").json["rules"]
    }


def _upper(name: str, value: str) -> str:
    return value if name in ("principal", "name", "host") else value.upper().replace("-", "_")


def until_shown(web: Web, count: int) -> set[tuple[str, ...]]:
    """Kafka's broker learns of ACLs a moment after its controller."""
    return eventually(lambda: shown(web), lambda found: len(found) == count)


@pytest.fixture(scope="module")
def with_rules(place: Place) -> Place:
    with logged_in(place.console, "admin", "admin") as web:
        for rule in RULES:
            answer = web.change("/access/acls", **rule)
            assert answer.status == 200, answer.text
        until_shown(web, 7)
    return place


def test_page_equals_the_output_of_kafka_acls(with_rules: Place, tmp_path: Path) -> None:
    with logged_in(with_rules.console, "admin", "admin") as web:
        assert shown(web) == listed_by_kafka(with_rules, tmp_path)
        about = {rule["principal"] for rule in web.api("/access/acls", topic="payroll").json["rules"]}
        assert about == {"User:asking"}
        assert "User:bob" in web.get("/access/acls", q="bob").text


def test_exactly_one_rule_is_removed(with_rules: Place, tmp_path: Path) -> None:
    with logged_in(with_rules.console, "admin", "admin") as web:
        web.change("/access/acls", permission="allow", principal="User:bob", operations=["read"], resource="topic",
                   name="orders")  # fmt: skip
        before = until_shown(web, 8)
        [rule] = web.api("/access/acls", principal="User:bob", topic="orders").json["rules"]
        assert web.change("/access/acls/remove", **rule).status == 200
        after = until_shown(web, 7)

        assert before - after == {("ALLOW", "User:bob", "READ", "TOPIC", "orders", "LITERAL", "*")}
        assert web.change("/access/acls/remove", **rule).status == 409
        assert after == listed_by_kafka(with_rules, tmp_path)


def test_effective_rights_on_the_page_equal_those_of_the_brokers(with_rules: Place) -> None:
    with logged_in(with_rules.console, "admin", "admin") as web:
        page = web.api("/access/may", principal="User:asking").json
    judged = {(row["resource"], row["name"], word) for row in page["allowed"] for word in row["operations"]}

    assert judged == asyncio.run(decided(with_rules.bootstrap))


async def decided(bootstrap: str) -> set[tuple[str, str, str]]:
    """By the brokers themselves, for each operation that a request can ask for."""
    security = parse_security(LOGIN)
    users = KafkaUsers(bootstrap, security, "test")
    user = await users.user(password_login("asking", "asking", security))
    found = set()
    for kind, names in ((ResourceType.TOPIC, TOPICS), (ResourceType.CLUSTER, (CLUSTER_NAME,))):
        for operation in SUPPORTED[kind]:
            for name in await user.allowed(operation, kind, names):
                found.add((kind.name.lower(), name, operation.name.lower().replace("_", "-")))
    await users.close()
    return found


@pytest.mark.parametrize(
    ("question", "allowed", "because"),
    [
        ({"operation": "write", "name": "payments"}, True, "User:asking is allowed write on topic pay*"),
        ({"operation": "write", "name": "payroll"}, False, "User:asking is denied write on topic payroll"),
        ({"operation": "read", "name": "payroll"}, False, "none of them allows it"),
        ({"operation": "describe", "name": "g", "resource": "group"}, True, "User:* is allowed describe"),
        ({"operation": "alter", "resource": "cluster"}, False, "none of them allows it"),
    ],
)
def test_the_rule_that_decides_is_named(
    with_rules: Place, question: dict[str, str], allowed: bool, because: str
) -> None:
    with logged_in(with_rules.console, "admin", "admin") as web:
        answer = web.api("/access/may", principal="User:asking", **question).json["answer"]

    assert answer["allowed"] is allowed
    assert because in answer["because"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"principal": "asking"}, ""),
        ({"operations": ["fly"]}, ""),
        ({"operations": []}, "operations"),
        ({"operations": ["cluster-action"]}, ""),
        ({"host": "nowhere"}, "host"),
        ({"name": ""}, "name"),
        ({"resource": "moon"}, "resource"),
    ],
)
def test_rule_without_effect_is_rejected_with_a_message(
    with_rules: Place, change: dict[str, Any], field: str
) -> None:
    with logged_in(with_rules.console, "admin", "admin") as web:
        answer = web.change("/access/acls", **(RULES[0] | change))

    assert answer.status == 400
    assert answer.json["field"] == field
    assert answer.json["error"]
