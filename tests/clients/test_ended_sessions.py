"""Connections of real clients whose credential is changed, deleted or revoked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from barnabas.cluster.deltas import ConfigsChanged
from barnabas.cluster.image import ConfigResourceType
from barnabas.testing import EmbeddedBroker
from tests.support.identity_providers import AUDIENCE, ISSUER, IdentityProvider, SigningKey
from tests.support.sasl import PASSWORD, USER, add_user, commit, login, plain_users, sasl_settings
from tests.support.waiting import until

ENDS = "barnabas.credential.change.ends.sessions"
MECHANISM = "SCRAM-SHA-512"
DEADLINE = 60.0


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(sasl_settings()) as running:
        for name in (USER, "bob"):
            add_user(running, name, PASSWORD)
        yield running


def admin(broker: EmbeddedBroker) -> AdminClient:
    """On the other listener, which requires no authentication."""
    return AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.broker.listeners[1].port}"})


def alter(broker: EmbeddedBroker, change: UserScramCredentialUpsertion | UserScramCredentialDeletion) -> None:
    asking = admin(broker)
    for future in asking.alter_user_scram_credentials([change]).values():
        future.result(DEADLINE)


def change_password(broker: EmbeddedBroker) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    alter(broker, UserScramCredentialUpsertion(USER, info, b"another password"))


def end_sessions(broker: EmbeddedBroker) -> None:
    """For all brokers, while they run, as `kafka-configs --entity-default` sets it."""
    commit(broker, [ConfigsChanged(ConfigResourceType.BROKER, "", {ENDS: "true"})])


class Client:
    """A producer that records its errors."""

    def __init__(self, broker: EmbeddedBroker, user: str, credential: dict[str, str] | None = None) -> None:
        self.refused = False
        settings = {"bootstrap.servers": broker.bootstrap_servers, **(credential or login(MECHANISM, user))}
        self._producer = Producer({**settings, "error_cb": self._failed})

    def _failed(self, error: KafkaError) -> None:
        self.refused |= error.code() == KafkaError._AUTHENTICATION

    def write(self) -> None:
        written: list[object] = []
        self._producer.produce("orders", b"x", on_delivery=lambda error, _: written.append(error))
        assert self._producer.flush(DEADLINE) == 0
        assert written == [None]

    def until_refused(self) -> None:
        """Wait for a refused login: the end of a connection alone also calls back, before the broker has removed it."""
        until(self._is_refused)

    def _is_refused(self) -> bool:
        self._producer.poll(0.05)
        return self.refused


def names(broker: EmbeddedBroker) -> list[str]:
    """Of authenticated clients."""
    logins = (connection.login for connection in broker.broker.sockets.connections)
    return [login.principal.name for login in logins if login is not None and login.principal is not None]


def test_as_in_kafka_a_session_outlives_its_password(broker: EmbeddedBroker) -> None:
    alice = Client(broker, USER)
    alice.write()
    change_password(broker)
    alice.write()
    assert not alice.refused


@pytest.mark.parametrize("how", ["changed", "deleted"])
def test_a_session_ends_with_its_credential_if_that_is_wanted(broker: EmbeddedBroker, how: str) -> None:
    end_sessions(broker)
    alice, bob = Client(broker, USER), Client(broker, "bob")
    alice.write()
    bob.write()
    if how == "changed":
        change_password(broker)
    else:
        alter(broker, UserScramCredentialDeletion(USER, ScramMechanism.SCRAM_SHA_512))
    alice.until_refused()
    assert USER not in names(broker)
    assert "bob" in names(broker)
    assert broker.broker.sockets.connections.closed["credential"]
    bob.write()
    assert not bob.refused


def set_plain_users(broker: EmbeddedBroker, **passwords: str) -> None:
    """As `kafka-configs --entity-type brokers --entity-name 0 --alter` does it."""
    entry = ConfigEntry(
        "listener.name.sasl_plaintext.plain.sasl.jaas.config",
        plain_users(passwords),
        incremental_operation=AlterConfigOpType.SET,
    )
    node = str(broker.broker.config.node_id)
    change = ConfigResource(ConfigResource.Type.BROKER, node, incremental_configs=[entry])
    asking = admin(broker)
    for future in asking.incremental_alter_configs([change]).values():
        future.result(DEADLINE)


def test_sessions_of_plain_end_when_their_jaas_entry_changes(broker: EmbeddedBroker) -> None:
    end_sessions(broker)
    set_plain_users(broker, alice="old", bob="same")
    alice = Client(broker, USER, login("PLAIN", USER, "old"))
    bob = Client(broker, "bob", login("PLAIN", "bob", "same"))
    alice.write()
    bob.write()

    set_plain_users(broker, alice="new", bob="same")

    alice.until_refused()
    assert USER not in names(broker)
    assert "bob" in names(broker)
    bob.write()
    Client(broker, USER, login("PLAIN", USER, "new")).write()


def test_a_session_of_plain_outlives_its_jaas_entry_by_default(broker: EmbeddedBroker) -> None:
    set_plain_users(broker, alice="old")
    alice = Client(broker, USER, login("PLAIN", USER, "old"))
    alice.write()

    set_plain_users(broker, alice="new")

    alice.write()
    assert not alice.refused


@contextmanager
def trusting(provider: IdentityProvider, **settings: str) -> Iterator[EmbeddedBroker]:
    """A broker that takes tokens of this provider, and ends sessions."""
    with provider.serving():
        settings = sasl_settings(
            ("OAUTHBEARER",),
            **{
                "sasl.oauthbearer.jwks.endpoint.url": f"{provider.address}/keys",
                "sasl.oauthbearer.expected.issuer": ISSUER,
                "sasl.oauthbearer.expected.audience": AUDIENCE,
                ENDS: "true",
                **settings,
            },
        )
        with EmbeddedBroker(settings) as running:
            yield running


def with_token_of(provider: IdentityProvider, name: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": name,
        "sasl.oauthbearer.client.secret": provider.clients[name],
        "sasl.oauthbearer.token.endpoint.url": f"{provider.address}/token",
    }


def test_sessions_of_oauthbearer_end_when_the_provider_withdraws_the_key() -> None:
    provider = IdentityProvider()
    with trusting(provider, **{"sasl.oauthbearer.jwks.endpoint.refresh.ms": "200"}) as running:
        alice = Client(running, USER, with_token_of(provider, USER))
        alice.write()
        provider.keys.append(SigningKey("second"))
        fetches = provider.fetches
        until(lambda: provider.fetches > fetches + 1)
        assert USER in names(running)

        del provider.keys[0]

        alice.until_refused()
        assert USER not in names(running)


def test_sessions_of_a_withdrawn_key_end_when_a_login_has_the_keys_fetched() -> None:
    provider = IdentityProvider()
    provider.clients["bob"] = "his-client-secret"
    with trusting(provider, **{"sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "1"}) as running:
        alice = Client(running, USER, with_token_of(provider, USER))
        alice.write()
        provider.keys = [SigningKey("second")]

        bob = Client(running, "bob", with_token_of(provider, "bob"))
        bob.write()

        alice.until_refused()
        assert USER not in names(running)
        bob.write()
        assert not bob.refused
