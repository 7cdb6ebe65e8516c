"""Kafka's tools manage ACLs, quotas, SCRAM users and delegation tokens; one broker, one JVM."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.security.authn.tokens import password_of
from barnabas.security.authz.acls import AclBinding, PatternType, Permission
from barnabas.security.authz.authorizer import Operation, ResourceType
from barnabas.security.quotas.filters import QuotaEntity
from barnabas.testing import EmbeddedBroker
from tests.support.kafka.tools import ToolResult, run_tool
from tests.support.sasl import java_login, properties, sasl_settings

pytestmark = pytest.mark.java

ACLS = "org.apache.kafka.tools.AclCommand"
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
CONFIGS = "kafka.admin.ConfigCommand"
KEY = "shared by all brokers"
TOPICS = "org.apache.kafka.tools.TopicCommand"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    settings = sasl_settings(
        **{
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "delegation.token.secret.key": KEY,
        }
    )
    with EmbeddedBroker(settings=settings) as running:
        yield running


def address(broker: EmbeddedBroker, listener: str) -> str:
    return next(f"127.0.0.1:{one.port}" for one in broker.broker.listeners if one.name == listener)


def tool(broker: EmbeddedBroker, main_class: str, *arguments: str) -> ToolResult:
    """As the super user of the listener without authentication."""
    return run_tool(main_class, "--bootstrap-server", address(broker, "PLAINTEXT"), *arguments)


def configured(broker: EmbeddedBroker, *arguments: str) -> str:
    return tool(broker, CONFIGS, *arguments).check().stdout


def of_user(name: str) -> tuple[str, ...]:
    return "--entity-type", "users", "--entity-name", name


def test_kafka_configs_manages_scram_users(broker: EmbeddedBroker) -> None:
    for config in ("SCRAM-SHA-256=[iterations=8192,password=secret]", "SCRAM-SHA-512=[password=secret]"):
        configured(broker, *of_user("alice"), "--alter", "--add-config", config)
    shown = configured(broker, *of_user("alice"), "--describe")
    assert "SCRAM-SHA-256=iterations=8192" in shown
    assert "SCRAM-SHA-512=iterations=4096" in shown
    configured(broker, *of_user("alice"), "--alter", "--delete-config", "SCRAM-SHA-512")
    assert [user.mechanism for user in broker.broker.image.scram_credentials] == [1]


def test_kafka_configs_manages_quotas_of_users_clients_and_addresses(broker: EmbeddedBroker) -> None:
    rates = "producer_byte_rate=1024,consumer_byte_rate=2048,request_percentage=12.5"
    configured(broker, *of_user("bob"), "--alter", "--add-config", rates)
    both = (*of_user("bob"), "--entity-type", "clients", "--entity-default")
    configured(broker, *both, "--alter", "--add-config", "controller_mutation_rate=3.5")
    address_quota = ("--entity-type", "ips", "--entity-name", "10.0.0.1")
    configured(broker, *address_quota, "--alter", "--add-config", "connection_creation_rate=5")
    assert broker.broker.image.client_quotas == {
        QuotaEntity(user="bob"): {
            "producer_byte_rate": 1024.0,
            "consumer_byte_rate": 2048.0,
            "request_percentage": 12.5,
        },
        QuotaEntity("bob", ""): {"controller_mutation_rate": 3.5},
        QuotaEntity(ip="10.0.0.1"): {"connection_creation_rate": 5.0},
    }
    assert "consumer_byte_rate=2048.0" in configured(broker, *of_user("bob"), "--describe")
    assert "connection_creation_rate=5.0" in configured(broker, "--entity-type", "ips", "--describe")
    configured(broker, *of_user("bob"), "--alter", "--delete-config", "consumer_byte_rate,request_percentage")
    assert broker.broker.image.client_quotas[QuotaEntity(user="bob")] == {"producer_byte_rate": 1024.0}


def test_kafka_acls_adds_lists_and_removes_rules(broker: EmbeddedBroker) -> None:
    rule = ("--allow-principal", "User:alice", "--operation", "Read", "--operation", "Write")
    where = ("--topic", "orders-", "--resource-pattern-type", "prefixed", "--allow-host", "10.0.0.1")
    tool(broker, ACLS, "--add", *rule, *where).check()
    tool(broker, ACLS, "--add", "--deny-principal", "User:eve", "--operation", "All", "--cluster").check()
    assert len(broker.broker.image.acls) == 3
    allowed = AclBinding(
        ResourceType.TOPIC,
        "orders-",
        PatternType.PREFIXED,
        "User:alice",
        "10.0.0.1",
        Operation.READ,
        Permission.ALLOW,
    )
    assert allowed in broker.broker.image.acls
    shown = (
        tool(broker, ACLS, "--list", "--topic", "orders-eu", "--resource-pattern-type", "match")
        .check()
        .stdout
    )
    assert "(principal=User:alice, host=10.0.0.1, operation=WRITE, permissionType=ALLOW)" in shown
    assert "eve" not in shown
    removed = ("--remove", "--force", "--topic", "orders-", "--resource-pattern-type", "prefixed")
    tool(broker, ACLS, *removed).check()
    assert [acl.principal for acl in broker.broker.image.acls] == ["User:eve"]
    tool(broker, ACLS, "--remove", "--force", "--cluster").check()
    assert not broker.broker.image.acls


def test_kafka_delegation_tokens_creates_renews_and_expires_tokens(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    configured(broker, *of_user("carol"), "--alter", "--add-config", "SCRAM-SHA-256=[password=secret]")
    secured = address(broker, "SASL_PLAINTEXT")
    login = tmp_path / "login.properties"
    login.write_text(properties(java_login("SCRAM-SHA-256", "carol", "secret")))

    def tokens(*arguments: str) -> ToolResult:
        return run_tool(TOKENS, "--bootstrap-server", secured, "--command-config", str(login), *arguments)

    created = (
        tokens("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob").check().stdout
    )
    (token,) = broker.broker.image.delegation_tokens.values()
    assert (token.owner, token.renewers) == ("User:carol", ("User:bob",))
    found = re.search(rf"{token.token_id} +(\S+) +User:carol", created)
    assert found is not None
    password = found[1]
    assert password == password_of(token.token_id, KEY), created
    assert token.token_id in tokens("--describe", "--owner-principal", "User:carol").check().stdout
    by_token = tmp_path / "token.properties"
    entered = java_login("SCRAM-SHA-256", token.token_id, password)
    entered["sasl.jaas.config"] = entered["sasl.jaas.config"].replace(";", ' tokenauth="true";')
    by_token.write_text(properties(entered))
    listed = run_tool(TOPICS, "--bootstrap-server", secured, "--command-config", str(by_token), "--list")
    assert listed.returncode == 0, listed
    to_secured = ("--bootstrap-server", secured, "--command-config", str(by_token))
    refused = run_tool(TOKENS, *to_secured, "--describe", "--owner-principal", "User:carol")
    assert "not allowed" in refused.stdout + refused.stderr
    tokens("--renew", "--renew-time-period", "3600000", "--hmac", password).check()
    (renewed,) = broker.broker.image.delegation_tokens.values()
    assert renewed.expires_ms < token.expires_ms
    tokens("--expire", "--expiry-time-period", "-1", "--hmac", password).check()
    assert not broker.broker.image.delegation_tokens
