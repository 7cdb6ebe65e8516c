"""Clients that authenticate with tokens of an identity provider (OAUTHBEARER)."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import KafkaError, Producer

from barnabas.client.cluster import Client
from barnabas.client.errors import AuthenticationError
from barnabas.client.security.parsing import parse_security
from barnabas.common.safe_logging import line_limit
from barnabas.config.setting import ConfigError
from barnabas.testing import EmbeddedBroker
from tests.clients.conftest import consume, produce
from tests.support.identity_providers import AUDIENCE, ISSUER, IdentityProvider, SigningKey, claims
from tests.support.kafka.jars import requires_java
from tests.support.kafka.tools import TOOL_FLAGS, run_tool
from tests.support.sasl import properties, sasl_settings, until_logged
from tests.support.waiting import retry

DEADLINE = 60


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    made = IdentityProvider()
    with made.serving():
        yield made


def settings_for(provider: IdentityProvider, **others: str) -> dict[str, str]:
    return sasl_settings(
        ("OAUTHBEARER",),
        **{
            "listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": f"{provider.address}/keys",
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "100",
            **others,
        },
    )


@pytest.fixture(scope="module")
def secured(provider: IdentityProvider) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(settings_for(provider)) as running:
        yield running


@pytest.fixture
def bootstrap(secured: EmbeddedBroker) -> str:
    return secured.bootstrap_servers


def by_endpoint(provider: IdentityProvider, secret: str = "her-client-secret") -> dict[str, str]:
    """librdkafka's own client of token endpoints."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "alice",
        "sasl.oauthbearer.client.secret": secret,
        "sasl.oauthbearer.token.endpoint.url": f"{provider.address}/token",
    }


def test_librdkafka_gets_its_token_from_the_provider(bootstrap: str, provider: IdentityProvider) -> None:
    settings: dict[str, Any] = {
        name.replace(".", "_"): value for name, value in by_endpoint(provider).items()
    }
    topic = f"rd-{uuid.uuid4()}"

    produce(bootstrap, topic, [b"one"], **settings)

    assert [each.value() for each in consume(bootstrap, topic, 1, **settings)] == [b"one"]


def test_aiokafka_shows_a_token_of_its_owner(bootstrap: str, provider: IdentityProvider) -> None:
    class Tokens(AbstractTokenProvider):  # type: ignore[misc]  # it has no types
        async def token(self) -> str:
            return provider.token()

    async def send() -> None:
        settings: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, sasl_oauth_token_provider=Tokens(), **settings
        )
        async with producer:
            await producer.send_and_wait(f"aio-{uuid.uuid4()}", b"one")

    asyncio.run(send())


@requires_java
def test_kafkas_tools_get_their_token_from_the_provider(
    bootstrap: str, provider: IdentityProvider, tmp_path: Path
) -> None:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    endpoint = f"{provider.address}/token"
    config = tmp_path / "client.properties"
    config.write_text(
        properties(
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.login.callback.handler.class": (
                    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
                ),
                "sasl.oauthbearer.token.endpoint.url": endpoint,
                "sasl.jaas.config": f'{module} required clientId="alice" clientSecret="her-client-secret";',
            }
        )
    )
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={endpoint}"
    run_tool(
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", bootstrap, "--command-config", str(config), "--create", "--topic", "by-java"),
        flags=(*TOOL_FLAGS, allowed),
    ).check()


async def ask(bootstrap: str, token: str) -> list[str]:
    security = parse_security(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token": token,
        }
    )
    async with Client(bootstrap, security=security) as client:
        return list(await client.all_topics())


def test_expired_or_foreign_token_is_rejected_and_not_logged(
    bootstrap: str, provider: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    forged = SigningKey(provider.keys[-1].name)
    line_limit.forget()  # of the tests before
    with caplog.at_level(logging.DEBUG):
        for token in (
            provider.keys[-1].sign({**claims(), "exp": time.time() - 86_400}),
            provider.keys[-1].sign({**claims(), "aud": "others"}),
            forged.sign(claims()),
        ):
            with pytest.raises(AuthenticationError, match="invalid_token"):
                asyncio.run(ask(bootstrap, token))
            assert token.rpartition(".")[2] not in caplog.text
        until_logged(caplog, "the token has expired")
        until_logged(caplog, "the signature is invalid")


def test_a_provider_may_change_its_keys(bootstrap: str, provider: IdentityProvider) -> None:
    asyncio.run(ask(bootstrap, provider.token()))
    provider.keys.append(SigningKey("second"))
    retry(lambda: asyncio.run(ask(bootstrap, provider.token())), AuthenticationError)  # after the next fetch
    fetches = provider.fetches
    asyncio.run(ask(bootstrap, provider.token()))

    assert provider.fetches == fetches


def test_a_session_ends_with_its_token(
    bootstrap: str, secured: EmbeddedBroker, provider: IdentityProvider
) -> None:
    """librdkafka gets another token before that, and authenticates again."""
    again = secured.broker.authentication.counts[True, True]
    before, provider.lifetime = again["SASL_PLAINTEXT"], 4
    errors: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": bootstrap, **by_endpoint(provider), "error_cb": errors.append})
    try:
        deadline = time.monotonic() + DEADLINE
        while again["SASL_PLAINTEXT"] == before and time.monotonic() < deadline:
            producer.produce("again", b"x")
            producer.poll(0.05)
        assert producer.flush(DEADLINE) == 0
    finally:
        provider.lifetime = 300
    assert again["SASL_PLAINTEXT"] > before


@pytest.mark.parametrize("missing", ["expected.issuer", "expected.audience", "jwks.endpoint.url"])
def test_a_broker_that_would_take_tokens_of_anybody_does_not_start(
    provider: IdentityProvider, missing: str
) -> None:
    settings = {name: value for name, value in settings_for(provider).items() if not name.endswith(missing)}

    with pytest.raises(ConfigError, match=f"needs sasl.oauthbearer.{missing}"), EmbeddedBroker(settings):
        pass
