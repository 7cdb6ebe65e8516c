"""Brokers replace their certificates, and the authority, while running."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.broker.security import tls_reload
from barnabas.broker.security.inter_broker import peer_security
from barnabas.broker.security.tls_reload import PeerTls, TlsReload
from barnabas.client.connection import BrokerConnection
from barnabas.client.security.guard import Guard
from barnabas.client.security.parsing import parse_security
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.config.broker import BrokerConfig
from barnabas.config.setting import ConfigError
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.replication import AllocateProducerIdsRequest
from barnabas.security.tls.authority import Authority, own_hosts
from barnabas.testing import EmbeddedBroker, EmbeddedCluster
from tests.support.waiting import until
from tests.support.zookeeper import require_zookeeper

SECONDS = 60


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedCluster]:
    """Brokers authenticate each other by certificate. They check for changes on demand."""
    require_zookeeper()
    monkeypatch.setattr(tls_reload, "CHECK_SECONDS", 3600.0)
    settings = {"ssl.client.auth": "required", "super.users": "User:CN=admin"}
    with EmbeddedCluster(2, settings, security="SSL") as running:
        yield running


def stores(cluster: EmbeddedCluster) -> Path:
    return Path(cluster.brokers[1].settings["ssl.keystore.location"]).parent


def look(broker: EmbeddedBroker) -> None:
    reload = broker.broker.sockets.tls.reload
    assert isinstance(reload, TlsReload)
    broker._in_thread().run(reload.look(), SECONDS)


def reaches(broker: EmbeddedBroker, other: int) -> bool:
    """Use a new connection: earlier ones ended with the other broker."""
    try:
        return broker._in_thread().run(broker.broker.peers.serves(other, ApiKey.ENVELOPE), SECONDS)
    except KafkaError:
        return False


def test_brokers_trust_and_show_the_certificates_that_are_there_now(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other")
    other.provide(own_hosts(()))
    shutil.copyfile(other.certificate, stores(cluster) / "ca.pem")
    shutil.copyfile(other.broker, stores(cluster) / "broker.pem")
    cluster.brokers[2].restart()  # it trusts the new authority alone
    assert not reaches(cluster.brokers[1], 2)
    look(cluster.brokers[1])
    assert reaches(cluster.brokers[1], 2)
    assert reaches(cluster.brokers[2], 1)


def asked_for_producer_ids(cluster: EmbeddedCluster, name: str) -> int:
    """Send a broker-only request as a client with a certificate of this name."""
    controller = cluster.brokers[cluster.controller()]
    own = replace(controller.clients, key_file=controller.client_certificate(name))

    async def ask() -> int:
        guard = Guard(parse_security(own.java))
        connection = await BrokerConnection.connect(controller.host, controller.port, guard=guard)
        try:
            return int((await connection.send(AllocateProducerIdsRequest(9, 9), 0)).error_code)
        finally:
            connection.close()

    return asyncio.run(asyncio.wait_for(ask(), SECONDS))


def test_a_client_is_no_broker_because_it_has_a_certificate(cluster: EmbeddedCluster) -> None:
    until(lambda: reaches(cluster.brokers[1], 2))  # it may have started before the other was registered
    assert asked_for_producer_ids(cluster, "alice") == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert asked_for_producer_ids(cluster, "admin") == ErrorCode.STALE_BROKER_EPOCH


def settings(folder: Path) -> dict[str, str]:
    return {
        "listeners": "SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.location": str(folder / "ca.pem"),
    }


def test_a_file_that_cannot_be_used_changes_nothing(tmp_path: Path) -> None:
    Authority(tmp_path).provide(["localhost"])
    config = BrokerConfig.load(settings(tmp_path))
    tls = PeerTls(peer_security(config))
    before = tls.guard.context
    assert tls.renewed(config) is None
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(ConfigError, match=r"other brokers.*ssl\.truststore\.location"):
        tls.renewed(config)
    assert tls.guard.context is before
