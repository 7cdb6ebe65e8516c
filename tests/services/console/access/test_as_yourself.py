"""Login with Kafka credentials, on brokers with TLS, SCRAM and ACLs."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.client.access import logins
from barnabas.client.access.acls import create_acls, delete_acls
from barnabas.client.access.users import set_password
from barnabas.client.cluster import Client
from barnabas.client.security.parsing import parse_security
from barnabas.client.security.settings import ClientSecurity, Mechanism, SaslSettings
from barnabas.security.authn.credentials import ScramMechanism, Secret
from barnabas.security.authz.acl_filters import AclFilter
from barnabas.security.authz.acls import AclBinding
from barnabas.security.authz.authorizer import CLUSTER_NAME, Operation, ResourceType
from barnabas.services.console.access.model import AccessSettings, LoginKind, LoginSettings, MaskRule
from barnabas.services.console.settings import ClusterSettings
from barnabas.testing import EmbeddedBroker
from tests.services.console.access.people import log_in, logged_in
from tests.services.console.web import CLUSTER, RunningConsole, running_console

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
USERS = {"admin": "admins-password", "alice": "alices-password"}
LITERAL, ALLOW = 3, 3


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    settings = {
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:admin",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    }
    with EmbeddedBroker(settings, security="SASL_SSL", users=USERS) as running:
        running.create_topic("hers")
        running.create_topic("theirs")
        yield running


@pytest.fixture(scope="module")
def security(broker: EmbeddedBroker) -> ClientSecurity:
    """Of the console: SCRAM, with which its users log in, too."""
    plain = parse_security(broker.clients_of("admin").java)

    async def make_users() -> None:
        async with Client(broker.bootstrap_servers, security=plain) as client:
            for name, password in USERS.items():
                await set_password(client, name, password, [ScramMechanism.SHA_512], 4096)

    asyncio.run(make_users())
    sasl = SaslSettings(Mechanism.SCRAM_SHA_512, "admin", Secret(USERS["admin"]))
    return replace(plain, sasl=sasl)


@pytest.fixture(scope="module")
def console(
    broker: EmbeddedBroker, security: ClientSecurity, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningConsole]:
    cluster = ClusterSettings(CLUSTER, broker.bootstrap_servers, security)
    masks = (MaskRule(("hers",), fields=("card",)),)
    access = AccessSettings(LoginSettings(LoginKind.KAFKA), masks=masks)
    folder = tmp_path_factory.mktemp("console")
    with running_console(broker.bootstrap_servers, folder, clusters=(cluster,), access=access) as running:
        yield running


@pytest.fixture(autouse=True)
def rights_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "REMEMBERED", 0.0)


@pytest.fixture(autouse=True)
def no_rights(broker: EmbeddedBroker, security: ClientSecurity) -> None:
    async def delete() -> None:
        async with Client(broker.bootstrap_servers, security=security) as client:
            await delete_acls(client, [AclFilter(principal="User:alice")])

    asyncio.run(delete())


def allow(
    broker: EmbeddedBroker, security: ClientSecurity, kind: ResourceType, name: str, operation: Operation
) -> None:
    async def create() -> None:
        async with Client(broker.bootstrap_servers, security=security) as client:
            await create_acls(client, [AclBinding(kind, name, LITERAL, "User:alice", "*", operation, ALLOW)])

    asyncio.run(create())


def test_a_password_that_brokers_do_not_know_is_wrong_here_too(console: RunningConsole) -> None:
    with console.web() as web:
        assert log_in(web, "alice", "wrong").status == 401
        assert log_in(web, "mallory", USERS["alice"]).status == 401


def test_lists_and_pages_show_resources_visible_to_the_user(
    broker: EmbeddedBroker, security: ClientSecurity, console: RunningConsole
) -> None:
    with logged_in(console, "alice", USERS["alice"]) as web:
        assert web.api("/goto", q="hers").json["found"] == []
        allow(broker, security, ResourceType.TOPIC, "hers", Operation.READ)
        assert [each["name"] for each in web.api("/goto", q="hers").json["found"]] == ["hers"]
        assert web.api("/topics/hers/records").status == 200
        assert web.api("/topics/theirs/records").status == 403


def test_changes_are_made_by_the_visitor_and_refused_without_the_right(
    broker: EmbeddedBroker, security: ClientSecurity, console: RunningConsole
) -> None:
    quota = {"user": "u", "limit": "producer_byte_rate", "value": 1000}
    with logged_in(console, "alice", USERS["alice"]) as web:
        assert web.change("/access/quotas", **quota).status == 403
        allow(broker, security, ResourceType.CLUSTER, CLUSTER_NAME, Operation.ALTER_CONFIGS)
        assert web.change("/access/quotas", **quota).status == 403
        allow(broker, security, ResourceType.CLUSTER, CLUSTER_NAME, Operation.ALTER)
        assert web.change("/access/quotas", **quota).status == 200


def test_console_acts_with_the_rights_of_the_user(
    broker: EmbeddedBroker, security: ClientSecurity, console: RunningConsole
) -> None:
    """Its account is a super user here, but it acts with the user's rights."""
    allow(broker, security, ResourceType.TOPIC, "hers", Operation.READ)
    with logged_in(console, "alice", USERS["alice"]) as web:
        for path in ("/access/acls", "/access/users", "/access/quotas", "/access/may", "/audit"):
            assert web.api(path).status == 403, path
        assert web.change("/topics/hers/produce", value="x").status == 403


def test_only_users_who_may_alter_acls_unmask(
    broker: EmbeddedBroker, security: ClientSecurity, console: RunningConsole
) -> None:
    allow(broker, security, ResourceType.TOPIC, "hers", Operation.READ)
    with logged_in(console, "admin", USERS["admin"]) as web:
        value = '{"card": "4711-0815"}'
        assert web.change("/topics/hers/produce", value=value, encoding="json").status == 200
        assert "4711-0815" in web.api("/topics/hers/records/0/0").text
    with logged_in(console, "alice", USERS["alice"]) as web:
        page = web.api("/topics/hers/records/0/0")
        assert page.status == 200
        assert "4711-0815" not in page.text


def test_programs_send_their_own_credentials_with_each_request(console: RunningConsole) -> None:
    with console.web() as web:
        pair = base64.b64encode(f"admin:{USERS['admin']}".encode()).decode()
        web.headers["Authorization"] = f"Basic {pair}"
        assert web.api("/access/acls").status == 200
        web.headers["Authorization"] = "Basic " + base64.b64encode(b"admin:wrong").decode()
        assert web.api("/access/acls").status == 401


def test_session_with_a_kafka_password_survives_a_restart_and_its_file_hides_it(
    broker: EmbeddedBroker, security: ClientSecurity, tmp_path: Path
) -> None:
    cluster = ClusterSettings(CLUSTER, broker.bootstrap_servers, security)
    settings = {"clusters": (cluster,), "access": AccessSettings(LoginSettings(LoginKind.KAFKA))}
    with (
        running_console(broker.bootstrap_servers, tmp_path, **settings) as first,
        logged_in(first, "admin", USERS["admin"]) as web,
    ):
        cookie = web.headers["Cookie"]
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("sessions.*"))
    assert stored
    assert USERS["admin"].encode() not in stored
    with running_console(broker.bootstrap_servers, tmp_path, **settings) as second, second.web() as web:
        web.headers["Cookie"] = cookie
        assert web.api("/access/acls").status == 200
        assert "admin" in web.get("/topics").text


def test_a_session_ends_with_the_password_that_opened_it(
    broker: EmbeddedBroker, security: ClientSecurity, console: RunningConsole
) -> None:
    async def change(password: str) -> None:
        async with Client(broker.bootstrap_servers, security=security) as client:
            await set_password(client, "alice", password, [ScramMechanism.SHA_512], 4096)

    with logged_in(console, "alice", USERS["alice"]) as web:
        assert web.api("/goto").status == 200
        asyncio.run(change("another-password"))
        try:
            assert web.api("/goto").status == 401
            assert log_in(web, "alice", "another-password").status == 303
        finally:
            asyncio.run(change(USERS["alice"]))
