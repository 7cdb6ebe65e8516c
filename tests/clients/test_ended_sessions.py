"""A password that was changed, and a user that was deleted: what becomes of the connections of real clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from barnabas.cluster.deltas import ConfigsChanged
from barnabas.cluster.image import ResourceType
from barnabas.testing import EmbeddedBroker
from tests.sasl_broker import PASSWORD, USER, add_user, commit, login, sasl_settings

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
    """On the other listener, where nobody has to log in."""
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
    commit(broker, [ConfigsChanged(ResourceType.BROKER, "", {ENDS: "true"})])


class Client:
    """A producer that says what it was told."""

    def __init__(self, broker: EmbeddedBroker, user: str) -> None:
        self.refused = False
        settings = {"bootstrap.servers": broker.bootstrap_servers, **login(MECHANISM, user)}
        self._producer = Producer({**settings, "error_cb": self._failed})

    def _failed(self, error: KafkaError) -> None:
        self.refused |= error.code() == KafkaError._AUTHENTICATION

    def write(self) -> None:
        written: list[object] = []
        self._producer.produce("orders", b"x", on_delivery=lambda error, _: written.append(error))
        assert self._producer.flush(DEADLINE) == 0
        assert written == [None]

    def until_refused(self) -> None:
        until(lambda: bool(self._producer.poll(0.05) or self.refused))


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline


def names(broker: EmbeddedBroker) -> list[str]:
    """Of those who are logged in."""
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
