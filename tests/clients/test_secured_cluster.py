"""Three brokers with SASL_SSL between each other and to clients, on a single listener."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.client.connection import BrokerConnection
from barnabas.client.security.guard import Guard
from barnabas.client.security.parsing import parse_security
from barnabas.cluster.image import PartitionState
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.replication import AllocateProducerIdsRequest
from barnabas.security.authz.audit import TOPIC
from barnabas.testing import EmbeddedCluster
from tests.support.certificates import Authority
from tests.support.sasl import PASSWORD, PLAIN_USERS, USER, login
from tests.support.waiting import until
from tests.support.zookeeper import require_zookeeper

DEADLINE = 60.0
BROKER_LOGIN = 'username="broker" password="of all brokers" user_broker="of all brokers"'
SETTINGS = {
    "listeners": "SASL_SSL://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_SSL",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{PLAIN_USERS[:-1]} {BROKER_LOGIN};",
    "connections.max.reauth.ms": "3000",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:alice",  # brokers act as brokers without it
    "barnabas.audit.topic.enable": "true",
    "zookeeper.session.timeout.ms": "3000",
}


class SecuredCluster(EmbeddedCluster):
    """With certificates of a common authority."""

    def __init__(self, folder: Path) -> None:
        authority = Authority()
        own = authority.sign("localhost", "127.0.0.1")
        (folder / "broker.pem").write_text(own.key_pem() + own.certificate_pem)
        self.trust = folder / "ca.pem"
        self.trust.write_text(authority.pem)
        tls = {
            "ssl.keystore.location": str(folder / "broker.pem"),
            "ssl.truststore.location": str(self.trust),
        }
        super().__init__(brokers=3, settings={**SETTINGS, **tls})

    def login(self, username: str = USER, password: str = PASSWORD) -> dict[str, str]:
        tls = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(self.trust)}
        return {**login("PLAIN", username, password), **tls}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    require_zookeeper()
    with SecuredCluster(tmp_path_factory.mktemp("certificates")) as running:
        yield running


def create(cluster: SecuredCluster, topic: str) -> None:
    """Sent to each broker: two of them forward it to the controller on behalf of the client."""
    for node_id, broker in cluster.brokers.items():
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **cluster.login()})
        name = topic if node_id == 1 else f"{topic}-{node_id}"
        admin.create_topics([NewTopic(name, 3, 3)])[name].result(DEADLINE)


def test_the_audit_log_of_all_brokers_is_in_one_topic(cluster: SecuredCluster) -> None:
    """Two of them send their events to the one that leads it."""
    create(cluster, "audited")

    def all_have_told() -> bool:
        written = b"".join(
            segment.read_bytes()
            for broker in cluster.brokers.values()
            for segment in broker.data_dir.glob(f"{TOPIC}-0/*.log")
        )
        return b'"audited"' in written and all(b'"node": %d,' % node in written for node in cluster.brokers)

    until(all_have_told)
    assert [broker.broker.audit.lost for broker in cluster.brokers.values() if broker.broker.audit] == [
        0,
        0,
        0,
    ]


def test_a_cluster_replicates_forwards_and_fails_over_with_sasl_everywhere(cluster: SecuredCluster) -> None:
    create(cluster, "secured")
    response: list[object] = []
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, **cluster.login()}
    )

    def send(count: int) -> None:
        for number in range(count):
            producer.produce(
                "secured", str(number), partition=number % 3, on_delivery=lambda e, m: response.append(e)
            )
        assert producer.flush(DEADLINE) == 0

    send(300)
    killed = cluster.leader_of("secured")
    cluster.kill(killed)
    send(300)
    cluster.brokers[killed].start()
    until(lambda: all(len(state.isr) == 3 for state in states(cluster, "secured")))

    assert response == [None] * 600
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            **cluster.login(),
        }
    )
    consumer.subscribe(["secured"])
    read = 0
    deadline = time.monotonic() + DEADLINE
    while read < 600 and time.monotonic() < deadline:
        read += sum(message.error() is None for message in consumer.consume(600, 1.0))
    consumer.close()
    assert read == 600


def states(cluster: SecuredCluster, topic: str) -> tuple[PartitionState, ...]:
    return cluster.running[0].broker.image.topics[topic].partitions


def test_brokers_authenticate_again_too(cluster: SecuredCluster) -> None:
    again = [broker.broker.authentication.counts[True, True] for broker in cluster.running]

    until(lambda: all(counts["SASL_SSL"] > 0 for counts in again))


async def ask_as_broker(cluster: SecuredCluster, settings: dict[str, str]) -> int:
    broker = cluster.running[0]
    guard = Guard(parse_security(settings))
    connection = await BrokerConnection.connect(broker.host, broker.port, guard=guard)
    try:
        epoch = broker.broker.broker_epoch
        answer = await connection.send(AllocateProducerIdsRequest(broker.broker.node_id, epoch), 0)
        code: int = answer.error_code
        return code
    finally:
        connection.close()


def test_a_client_on_the_listener_of_brokers_is_no_broker(cluster: SecuredCluster) -> None:
    as_broker = asyncio.run(ask_as_broker(cluster, cluster.login("broker", "of all brokers")))
    as_client = asyncio.run(ask_as_broker(cluster, cluster.login("bob", "bobs-password")))

    assert as_broker in (ErrorCode.NONE, ErrorCode.NOT_CONTROLLER)
    assert as_client == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_user_without_a_password_is_never_authenticated(cluster: SecuredCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **cluster.login("broker", PASSWORD)})

    with pytest.raises(KafkaException):
        admin.list_topics(timeout=5)
