"""Common interface of three-broker clusters of both kinds: start, stop, kill a broker, total cost."""

import os
import re
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, Self

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.cli.cluster.local_cluster import LocalCluster
from benchmarks.subjects.processes import cpu_seconds
from tests.support.kafka.broker import BROKER_FLAGS, ApacheKafka
from tests.support.kafka.tools import run_tool
from tests.support.programs import free_port

BROKERS = 3
HEAP = "1g"
_REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
_DEADLINE = 120.0
_POLL_SECONDS = 0.02
_ACTIVE_CONTROLLER = re.compile(r"LeaderId:\s+(\d+)")


class Cluster(Protocol):
    name: str

    @property
    def bootstrap(self) -> str: ...
    def start(self) -> Self: ...
    def stop(self) -> None: ...
    def cpu_seconds(self) -> float: ...
    def addresses(self) -> list[tuple[str, int]]: ...
    def controller_id(self) -> int: ...
    def kill(self, node_id: int) -> None: ...
    def log_dir(self, node_id: int) -> Path: ...


class KafkaCluster:
    """Three combined broker and controller nodes: the smallest Apache Kafka cluster that tolerates a failure."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        ports = [(free_port(), free_port()) for _ in range(BROKERS)]
        voters = ",".join(f"{node}@127.0.0.1:{ports[node - 1][1]}" for node in range(1, BROKERS + 1))
        self._nodes = [
            ApacheKafka(
                folder / str(node), port, HEAP, _kafka_settings(node, port, controller, voters), BROKER_FLAGS
            )
            for node, (port, controller) in enumerate(ports, 1)
        ]

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap_servers for node in self._nodes)

    def start(self) -> Self:
        for node in self._nodes:
            node.prepare()
        for node in self._nodes:
            node.launch()
        for node in self._nodes:
            node.wait_until_ready()
        return self

    def stop(self) -> None:
        for node in self._nodes:
            node.stop()

    def cpu_seconds(self) -> float:
        return sum(cpu_seconds(node.pid) for node in self._nodes)

    def addresses(self) -> list[tuple[str, int]]:
        return [("127.0.0.1", node.port) for node in self._nodes]

    def controller_id(self) -> int:
        tool = "org.apache.kafka.tools.MetadataQuorumCommand"
        output = run_tool(tool, "--bootstrap-server", self.bootstrap, "describe", "--status").check().stdout
        found = _ACTIVE_CONTROLLER.search(output)
        if found is None:
            raise RuntimeError(f"who is the controller? The tool said:\n{output}")
        return int(found[1])

    def kill(self, node_id: int) -> None:
        self._nodes[node_id - 1].kill()

    def log_dir(self, node_id: int) -> Path:
        return self._nodes[node_id - 1].log_dir


def _kafka_settings(node: int, port: int, controller_port: int, voters: str) -> dict[str, str]:
    return {
        **_REPLICATED,
        "node.id": str(node),
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.quorum.voters": voters,
    }


class BarnabasCluster:
    """Three brokers and their ZooKeeper, whose CPU time is included."""

    def __init__(self, name: str, folder: Path, settings: Mapping[str, str]) -> None:
        self.name = name
        self._folder = folder
        self._cluster = LocalCluster(BROKERS, folder, "127.0.0.1", 0, settings)

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap_servers

    def start(self) -> Self:
        self._cluster.__enter__()
        return self

    def stop(self) -> None:
        self._cluster.stop()

    def cpu_seconds(self) -> float:
        pids = [self._cluster.zookeeper.pid, *(broker.pid for broker in self._cluster.brokers)]
        return sum(cpu_seconds(pid) for pid in pids)

    def addresses(self) -> list[tuple[str, int]]:
        split = (broker.address.rsplit(":", 1) for broker in self._cluster.brokers)
        return [(host, int(port)) for host, port in split]

    def controller_id(self) -> int:
        return int(AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(timeout=30).controller_id)

    def kill(self, node_id: int) -> None:
        os.kill(self._cluster.brokers[node_id - 1].pid, signal.SIGKILL)

    def log_dir(self, node_id: int) -> Path:
        return self._folder / f"broker-{node_id}"


@contextmanager
def running(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster for a single measurement that changes its state."""
    try:
        yield cluster.start()
    finally:
        cluster.stop()


def create_topic(cluster: Cluster, topic: NewTopic) -> None:
    """Create a topic; return when every partition has a leader and a full ISR."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for created in admin.create_topics([topic], request_timeout=60).values():
        created.result(60)
    wait_for(admin, topic.topic, lambda leader, isr: leader >= 0 and isr == BROKERS)


class Condition(Protocol):
    def __call__(self, leader: int, isr: int, /) -> bool: ...


def wait_for(admin: AdminClient, topic: str, holds: Condition) -> None:
    """Wait until a condition on leader and size of the ISR holds for every partition of a topic."""
    end = time.monotonic() + _DEADLINE
    while time.monotonic() < end:
        partitions = admin.list_topics(topic, timeout=30).topics[topic].partitions.values()
        if partitions and all(holds(partition.leader, len(partition.isrs)) for partition in partitions):
            return
        time.sleep(_POLL_SECONDS)
    raise TimeoutError(f"{topic} is not as it should be after {_DEADLINE:g} s")
