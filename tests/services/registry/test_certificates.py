"""With certificate-authenticating brokers, the registry also authenticates by certificate, or must be configured as
open."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client.access.acls import create_acls
from barnabas.client.addresses import Address
from barnabas.client.cluster import Client
from barnabas.client.security.parsing import parse_security
from barnabas.security.authz.acls import allowing
from barnabas.security.authz.authorizer import Operation, ResourceType
from barnabas.security.tls.authority import Authority
from barnabas.security.tls.settings import TlsSettings, parse_tls
from barnabas.services.registry.access import OpenRegistryError, needed_acls
from barnabas.services.registry.server import RegistryServer, RegistrySettings
from barnabas.testing import EmbeddedBroker
from tests.support.brokers import BrokerProcess
from tests.support.programs import free_port
from tests.support.registry import Rest

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SUBJECT = "/subjects/orders-value/versions"


def java(broker: EmbeddedBroker, user: str) -> dict[str, str]:
    """With a certificate that the broker's own authority gives."""
    authority = Authority(Path(str(broker.ca_file)).parent)
    return {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.client(user)),
    }


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    settings = {
        "ssl.client.auth": "required",
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:CN=admin",
    }
    with EmbeddedBroker(settings, security="SSL") as made:

        async def allow() -> None:
            async with Client(made.bootstrap_servers, security=parse_security(java(made, "admin"))) as client:
                orders = {(ResourceType.TOPIC, "orders"): (Operation.READ, Operation.WRITE)}
                await create_acls(client, [*needed_acls("CN=registry"), *allowing("CN=alice", orders)])

        asyncio.run(allow())
        yield made


def settings_of(broker: EmbeddedBroker, tls: TlsSettings | None = None, **more: object) -> RegistrySettings:
    security = parse_security(java(broker, "registry"))
    return RegistrySettings(broker.bootstrap_servers, security, Address("127.0.0.1", 0), tls=tls, **more)  # type: ignore[arg-type]


def https(broker: EmbeddedBroker) -> TlsSettings:
    """The authority that signs for brokers and clients signs for registries."""
    authority = Authority(Path(str(broker.ca_file)).parent)
    keystore = authority.folder / "https.pem"
    keystore.write_bytes(authority.signed("https", ["127.0.0.1"]))
    return parse_tls(
        {"ssl.keystore.location": str(keystore), "ssl.truststore.location": str(authority.certificate)}
    )


def ask(
    url: str,
    broker: EmbeddedBroker,
    user: str,
    method: str,
    path: str,
    body: object = None,
) -> int:
    context = ssl.create_default_context(cafile=str(broker.ca_file))
    if user:
        context.load_cert_chain(java(broker, user)["ssl.keystore.location"])
    connection = http.client.HTTPSConnection(url.removeprefix("https://"), timeout=60, context=context)
    try:
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, data, {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read()
        assert response.status < 500, text
        return response.status
    finally:
        connection.close()


def test_registry_open_to_all_clients_does_not_start_without_confirmation(
    broker: EmbeddedBroker,
) -> None:
    for refused in (settings_of(broker), settings_of(broker, https(broker))):
        with pytest.raises(OpenRegistryError, match="--open"):
            RegistryServer(refused)

    async def work() -> None:
        async with RegistryServer(settings_of(broker, is_open=True)) as server:
            assert server.access.is_open

    asyncio.run(work())


def test_client_has_the_rights_of_the_owner_of_its_certificate(broker: EmbeddedBroker) -> None:
    """Through two registries: one of them forwards, with its own certificate."""

    async def work() -> None:
        tls = https(broker)
        secured = settings_of(broker, tls, client_auth="required")
        async with RegistryServer(secured) as one, RegistryServer(secured) as other:
            for at, server in enumerate((one, other)):
                await asyncio.to_thread(check, server.url, f"R{at}")

    def check(url: str, name: str) -> None:
        schema = {"schema": json.dumps({"type": "enum", "name": name, "symbols": ["A"]})}

        def status(user: str, method: str, path: str, body: object = None) -> int:
            return ask(url, broker, user, method, path, body)

        assert status("alice", "POST", "/subjects/secret-value/versions", schema) == 403
        assert status("alice", "PUT", "/config", {"compatibility": "NONE"}) == 403
        assert status("mallory", "GET", SUBJECT) == 403
        assert status("admin", "PUT", "/config", {"compatibility": "NONE"}) == 200
        assert status("alice", "POST", SUBJECT, schema) == 200
        assert status("alice", "GET", SUBJECT) == 200
        with pytest.raises((ssl.SSLError, OSError)):
            status("", "GET", "/subjects")

    asyncio.run(work())


@pytest.mark.slow
def test_serve_gives_the_rights_to_the_principal_of_the_certificate(tmp_path: Path) -> None:
    port = free_port()
    options: tuple[str, ...] = (
        "--tls",
        "auto",
        "--set",
        "ssl.client.auth=required",
        "--registry",
        f"127.0.0.1:{port}",
    )
    options += ("--set", f"authorizer.class.name={AUTHORIZER}", "--set", "super.users=User:CN=admin")
    with BrokerProcess(tmp_path, options=(*options, "--registry-open")) as broker:
        broker.until_it_says("The schema registry is ready on")
        with Rest(f"http://127.0.0.1:{port}") as rest:
            assert rest.register("orders-value", '"string"').body == {"id": 1}
