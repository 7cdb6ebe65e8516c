"""Tokens of a real OpenID provider (npm oidc-provider), which librdkafka fetches itself."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.testing import EmbeddedBroker
from tests.clients.conftest import consume, produce
from tests.support.identity_providers import openid_provider
from tests.support.sasl import sasl_settings


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with openid_provider(tmp_path_factory.mktemp("provider")) as address:
        yield address


def test_librdkafka_logs_in_with_a_token_of_an_openid_provider(issuer: str) -> None:
    settings = {
        "sasl.oauthbearer.jwks.endpoint.url": f"{issuer}/jwks",
        "sasl.oauthbearer.expected.issuer": issuer,
        "sasl.oauthbearer.expected.audience": "urn:barnabas",
    }
    client: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_method": "oidc",
        "sasl_oauthbearer_client_id": "alice",
        "sasl_oauthbearer_client_secret": "her-client-secret",
        "sasl_oauthbearer_token_endpoint_url": f"{issuer}/token",
    }
    topic = f"oidc-{uuid.uuid4()}"
    with EmbeddedBroker(sasl_settings(("OAUTHBEARER",), **settings)) as running:
        produce(running.bootstrap_servers, topic, [b"one"], **client)
        assert [each.value() for each in consume(running.bootstrap_servers, topic, 1, **client)] == [b"one"]
        users = {str(each.context.principal) for each in running.broker.sockets.connections}

    assert users <= {"User:alice", "User:ANONYMOUS"}
