"""Bearer tokens: validated by the brokers, authorized by the user's ACLs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from barnabas.client.access.acls import create_acls
from barnabas.client.cluster import Client
from barnabas.client.security.parsing import parse_security
from barnabas.security.authz.acls import AclBinding
from barnabas.security.authz.authorizer import Operation, ResourceType
from barnabas.testing import EmbeddedBroker
from barnabas.testing.embedded_registry import EmbeddedRegistry
from tests.support.identity_providers import AUDIENCE, ISSUER, IdentityProvider, SigningKey, claims
from tests.support.registry import Answer, Rest
from tests.support.sasl import login, sasl_settings

LITERAL, ALLOW = 3, 3
KEYS = "listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer.jwks.endpoint.url"
OWN = parse_security(login("PLAIN", "bob", "bobs-password"))  # the registry's


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    made = IdentityProvider()
    with made.serving():
        yield made


@pytest.fixture(scope="module")
def url(provider: IdentityProvider) -> Iterator[str]:
    settings = {
        KEYS: f"{provider.address}/keys",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:bob",
    }
    with EmbeddedBroker(sasl_settings(("PLAIN", "OAUTHBEARER"), **settings)) as broker:
        registry = EmbeddedRegistry(broker.bootstrap_servers, OWN)
        try:
            asyncio.run(allow_reading(broker.bootstrap_servers))
            with Rest(registry.url, "bob:bobs-password") as bob:
                assert bob.register("orders-value", '"string"').status == 200
            yield registry.url
        finally:
            registry.stop()


async def allow_reading(bootstrap: str) -> None:
    async with Client(bootstrap, security=OWN) as client:
        binding = AclBinding(ResourceType.TOPIC, "orders", LITERAL, "User:alice", "*", Operation.READ, ALLOW)
        await create_acls(client, [binding])


def ask(url: str, token: str, method: str = "GET") -> Answer:
    path = "/subjects/orders-value" + ("/versions" if method == "GET" else "")
    with Rest(url) as client:
        return client.ask(method, path, Authorization=f"Bearer {token}")


def test_the_user_of_a_token_has_that_users_rights(url: str, provider: IdentityProvider) -> None:
    assert ask(url, provider.token()).body == [1]
    assert ask(url, provider.token(), "DELETE").code == 40301
    assert ask(url, provider.token(sub="mallory")).code == 40301


def test_a_token_that_brokers_do_not_believe_is_refused_with_401(
    url: str, provider: IdentityProvider
) -> None:
    past = int(time.time()) - 3600
    forged = SigningKey("first").sign(claims())
    refused = [provider.token(aud="others"), provider.keys[0].sign(claims(exp=past)), forged, "no.token", ""]
    for token in refused:
        assert ask(url, token).status == 401
