"""An embedded cluster with TLS and authentication of brokers and clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from barnabas.client.cluster import Client
from barnabas.client.errors import ClientError
from barnabas.client.security.parsing import parse_security
from barnabas.security.authn.credentials import ScramMechanism
from barnabas.testing import EmbeddedCluster
from barnabas.testing.client_settings import ClientSettings
from tests.support.zookeeper import require_zookeeper

SECONDS = 60
USERS = {"alice": "her secret", "bob": "another"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    require_zookeeper()
    with EmbeddedCluster(2, {"min.insync.replicas": "2"}, security="SASL_SSL", users=USERS) as running:
        yield running


def topics(settings: ClientSettings) -> set[str]:
    async def ask() -> set[str]:
        async with Client(settings.bootstrap_servers, security=parse_security(settings.java)) as client:
            return set(await client.all_topics())

    return asyncio.run(asyncio.wait_for(ask(), SECONDS))


def test_records_are_replicated_between_brokers_that_have_authenticated(cluster: EmbeddedCluster) -> None:
    """acks=all needs both of them."""
    topic = cluster.create_topic(partitions=2)
    errors: list[object] = []
    producer = Producer(cluster.clients.confluent)
    for partition in range(2):
        producer.produce(topic, b"x", partition=partition, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(SECONDS) == 0
    assert errors == [None, None]
    peers = {
        str(connection.context.principal)
        for broker in cluster.running
        for connection in broker.broker.sockets.connections
        if connection.context.is_peer
    }
    assert peers == {"User:broker"}
    assert {each.security_protocol for broker in cluster.running for each in broker.broker.listeners} == {
        "SASL_SSL"
    }


def test_only_known_users_are_authenticated_by_every_broker(cluster: EmbeddedCluster) -> None:
    for broker in cluster.running:
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            topics(broker.clients_of("bob", mechanism))  # raises if authentication fails
    wrong = ClientSettings(cluster.bootstrap_servers, "SASL_SSL", cluster.clients.ca_file, "bob", "wrong")
    with pytest.raises(ClientError, match="rejected this client"):
        topics(wrong)


def test_an_unknown_user_sees_the_same_salt_everywhere_and_after_a_restart(cluster: EmbeddedCluster) -> None:
    def salts() -> set[bytes]:
        return {
            broker.broker.authentication.users.of_user(ScramMechanism.SHA_512, "nobody").credential.salt
            for broker in cluster.running
        }

    before = salts()
    assert len(before) == 1
    cluster.brokers[1].restart()
    assert salts() == before


def test_the_name_of_the_brokers_is_taken() -> None:
    with pytest.raises(ValueError, match="'broker' is the user of the brokers"):
        EmbeddedCluster(2, security="SASL_SSL", users={"broker": "x"})
