"""Every endpoint requires its right: generated from the endpoint table."""

from __future__ import annotations

import asyncio
import base64
import http.client
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client.access import logins
from barnabas.client.access.acls import create_acls, delete_acls
from barnabas.client.cluster import Client
from barnabas.client.security.parsing import parse_security
from barnabas.security.authz.acl_filters import AclFilter
from barnabas.security.authz.acls import AclBinding
from barnabas.security.authz.authorizer import CLUSTER_NAME, Operation, ResourceType
from barnabas.services.registry.api.app import ROUTES, Right, RightOn
from barnabas.testing import EmbeddedBroker
from barnabas.web import Route
from tests.support.registry import Answer, Rest

LITERAL, ALLOW, ANY = 3, 3, 1
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
USERS = {"admin": "admin's", "alice": "alice's"}


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedBroker]:
    settings = {"authorizer.class.name": AUTHORIZER, "super.users": "User:admin"}
    with EmbeddedBroker(settings, security="SASL_PLAINTEXT", users=USERS, registry=True) as broker:
        broker.create_topic("there")
        with Rest(broker.registry_url, "admin:admin's") as admin:
            for subject in ("there-value", "nowhere-value"):
                assert admin.register(subject, '"string"').status == 200
        yield broker


@pytest.fixture(autouse=True)
def rights_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "REMEMBERED", 0.0)


@pytest.fixture
def alice(secured: EmbeddedBroker) -> Iterator[Rest]:
    with Rest(secured.registry_url, "alice:alice's") as client:
        yield client


def allow(broker: EmbeddedBroker, kind: ResourceType, name: str, operation: Operation) -> None:
    async def create() -> None:
        security = parse_security(broker.clients_of("admin").java)
        async with Client(broker.bootstrap_servers, security=security) as client:
            await create_acls(client, [AclBinding(kind, name, LITERAL, "User:alice", "*", operation, ALLOW)])

    asyncio.run(create())


def forbid_all(broker: EmbeddedBroker) -> None:
    async def delete() -> None:
        security = parse_security(broker.clients_of("admin").java)
        async with Client(broker.bootstrap_servers, security=security) as client:
            await delete_acls(client, [AclFilter(ANY, None, ANY, "User:alice", None, ANY, ANY)])

    asyncio.run(delete())


def ask(client: Rest, route: Route[Right], subject: str) -> Answer:
    path = route.path.replace("{subject}", subject).replace("{version}", "1").replace("{id}", "1")
    path = path.replace("{guid}", "no-such-guid")
    body = None
    if route.method in ("POST", "PUT"):
        body = {"mode": "READWRITE"} if "mode" in path else {"schema": '"string"'}
        body = {"compatibility": "BACKWARD"} if "config" in path else body
    return client.ask(route.method, path, body)


WITH_RIGHT = [route for route in ROUTES if route.right.on not in (RightOn.NOTHING, RightOn.LISTED)]


@pytest.mark.parametrize("subject", ["there-value", "nowhere-value"])
@pytest.mark.parametrize("route", WITH_RIGHT, ids=lambda route: f"{route.method} {route.path}")
def test_an_endpoint_is_refused_without_its_right_and_answered_with_it(
    secured: EmbeddedBroker, alice: Rest, route: Route[Right], subject: str
) -> None:
    forbid_all(secured)
    assert ask(alice, route, subject).code == 40301
    topic = subject.removesuffix("-value")
    other = Operation.WRITE if route.right.operation is not Operation.WRITE else Operation.READ
    allow(secured, ResourceType.TOPIC, topic, other)
    assert ask(alice, route, subject).code == 40301
    if route.right.on is RightOn.CLUSTER:
        allow(secured, ResourceType.CLUSTER, CLUSTER_NAME, route.right.operation)
    else:
        allow(secured, ResourceType.TOPIC, topic, route.right.operation)
    assert ask(alice, route, subject).status != 403


@pytest.mark.parametrize(
    "path", ["__GLOBAL__", ":.:__GLOBAL__", "%3A.%3A__GLOBAL__", ":.__GLOBAL:", ":.acme:"]
)
@pytest.mark.parametrize("kind", ["config", "mode"])
def test_rights_depend_on_the_change_not_on_the_path(
    secured: EmbeddedBroker, alice: Rest, kind: str, path: str
) -> None:
    """A topic may be called __GLOBAL__: rights on it are no rights on the configuration of all."""
    forbid_all(secured)
    for name in ("__GLOBAL__", ":.:__GLOBAL__", "acme"):
        for operation in (Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS):
            allow(secured, ResourceType.TOPIC, name, operation)
    body = {"compatibility": "NONE"} if kind == "config" else {"mode": "READONLY"}
    for context in ("", "/contexts/."):
        assert alice.put(f"{context}/{kind}/{path}", body).code == 40301
        assert alice.delete(f"{context}/{kind}/{path}").code == 40301
        assert alice.get(f"{context}/{kind}/{path}").code == 40301
    with Rest(secured.registry_url, "admin:admin's") as admin:
        assert admin.get("/config").body["compatibilityLevel"] == "BACKWARD"
        assert admin.get("/mode").body == {"mode": "READWRITE"}


@pytest.mark.parametrize("name", [".%3Athere-value", "a%3Ab", ".%00", "x%0Ay"])
def test_a_context_in_a_path_has_neither_colons_nor_control_characters(
    secured: EmbeddedBroker, name: str
) -> None:
    with Rest(secured.registry_url, "admin:admin's") as admin:
        assert admin.get(f"/contexts/{name}/subjects").code == 422
        assert admin.put(f"/contexts/{name}/config/x", {"compatibility": "NONE"}).code == 422
        assert admin.get("/contexts/:.acme:/subjects").status == 200
        assert admin.put("/config/a%00b", {"compatibility": "NONE"}).code == 42208


def test_lists_show_only_readable_resources(secured: EmbeddedBroker, alice: Rest) -> None:
    forbid_all(secured)
    assert alice.get("/subjects").body == []
    assert alice.get("/schemas").body == []
    assert alice.get("/schemas/ids/1").code == 40301
    assert alice.get("/schemas/ids/1/subjects").code == 40301
    with Rest(secured.registry_url, "admin:admin's") as admin:
        guid = admin.get("/subjects/there-value/versions/1?deleted=true").body["guid"]
    for path in ("/schemas/ids/1/schema", "/schemas/ids/1/versions", f"/schemas/guids/{guid}"):
        assert alice.get(path).code == 40301
    assert alice.get(f"/schemas/guids/{guid}/ids").code == 40301
    allow(secured, ResourceType.TOPIC, "nowhere", Operation.READ)
    assert alice.get("/subjects?deleted=true").body == ["nowhere-value"]
    assert alice.get("/schemas/ids/1").status == 200
    assert alice.get("/schemas/ids/1/subjects?deleted=true").body == ["nowhere-value"]


def test_anonymous_and_wrong_password_get_401(secured: EmbeddedBroker) -> None:
    for login in ("", "alice:wrong", "nobody:x"):
        with Rest(secured.registry_url, login) as client:
            for path in ("/", "/subjects", "/schemas/types"):
                assert client.get(path).status == 401


@pytest.mark.parametrize("login", ["", "alice:wrong"])
def test_a_body_is_not_read_before_its_sender_is_known(secured: EmbeddedBroker, login: str) -> None:
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(secured.registry_url).netloc, timeout=60)
    connection.putrequest("POST", "/subjects/there-value/versions")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", "1000000")
    if login:
        connection.putheader("Authorization", f"Basic {base64.b64encode(login.encode()).decode()}")
    connection.endheaders(b"{")
    with connection.getresponse() as answer:
        assert answer.status == 401
    connection.close()


def test_importing_ids_and_referring_to_subjects_need_rights_of_their_own(
    secured: EmbeddedBroker, alice: Rest
) -> None:
    forbid_all(secured)
    allow(secured, ResourceType.TOPIC, "there", Operation.ALTER_CONFIGS)
    allow(secured, ResourceType.TOPIC, "there", Operation.WRITE)
    assert alice.put("/mode/there-value", {"mode": "IMPORT"}).code == 40301
    reference = {"name": "x", "subject": "secret-value", "version": 1}
    assert alice.register("there-value", '"string"', references=[reference]).code == 40301


def test_the_documentation_shows_every_endpoint_and_its_right() -> None:
    page = (Path(__file__).parents[3] / "docs" / "registry.md").read_text()
    for route in ROUTES:
        needed = "a login" if route.right.on is RightOn.NOTHING else route.right.operation.name
        assert f"| `{route.method} {route.path}` | {needed} |" in page
