"""ZooKeeper and brokers as processes, with a proxy in front of every link."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from signal import Signals
from types import TracebackType
from typing import Self

from confluent_kafka.admin import AdminClient, ClusterMetadata

from barnabas.cluster.zookeeper.process import ZooKeeperProcess, lasting_port
from tests.chaos.librdkafka import begin_transactions
from tests.chaos.links import Links, Way
from tests.chaos.security import PLAINTEXT, Security
from tests.chaos.store import ChaosStore
from tests.support.disks import SmallDisk
from tests.support.waiting import SECONDS, until
from tests.support.zookeeper import Ensemble

READY = "Barnabas is ready on "
WITH_SMALL_DISK = 1  # the broker whose disk can be filled


class ZooKeeperLinks:
    """A broker's links to all servers of ZooKeeper, which fail together."""

    def __init__(self, servers: Sequence[tuple[str, int]], source: int) -> None:
        self._links = [Links(server, source=source) for server in servers]

    @property
    def addresses(self) -> str:
        return ",".join(f"127.0.0.1:{links.port}" for links in self._links)

    def cut(self, source: int) -> None:
        for links in self._links:
            links.cut(source)

    def freeze(self, source: int, ways: Collection[Way] = tuple(Way)) -> None:
        for links in self._links:
            links.freeze(source, ways)

    def delay(self, source: int, seconds: float) -> None:
        for links in self._links:
            links.delay(source, seconds)

    def heal(self) -> None:
        for links in self._links:
            links.heal()

    def close(self) -> None:
        for links in self._links:
            links.close()


class BrokerProcess:
    """One `barnabas serve`, which keeps its ports and its folder over restarts."""

    def __init__(
        self, node_id: int, folder: Path, zookeeper: Sequence[tuple[str, int]], settings: Mapping[str, str]
    ) -> None:
        self.node_id = node_id
        self.disk = folder / f"disk-{node_id}"
        self.folder = self.disk / "data"
        self.port = lasting_port()
        peer_port = lasting_port()
        self.to_zookeeper = ZooKeeperLinks(zookeeper, node_id)
        self.from_peers = Links(("127.0.0.1", peer_port))
        self.output = folder / f"broker-{node_id}.log"
        self._config = folder / f"broker-{node_id}.properties"
        self._delay = folder / f"broker-{node_id}.delay"
        self._program = [sys.executable, "-m", "tests.chaos.slow_broker", str(self._delay)]
        self._process: subprocess.Popen[str] | None = None
        self.slow_disk(0)
        properties = {
            "node.id": str(node_id),
            "log.dirs": str(self.folder),
            "zookeeper.connect": f"{self.to_zookeeper.addresses}/chaos",
            "listeners": f"CLIENT://127.0.0.1:{self.port},PEER://127.0.0.1:{peer_port}",
            "advertised.listeners": f"CLIENT://127.0.0.1:{self.port},PEER://127.0.0.1:{self.from_peers.port}",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,PEER:PLAINTEXT",
            "inter.broker.listener.name": "PEER",
            **settings,
        }
        self._config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        ready = threading.Event()
        with self.output.open("ab") as errors:
            self._process = subprocess.Popen(
                [*self._program, "serve", "--config", str(self._config)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        threading.Thread(target=_watch, args=(self._process, ready), daemon=True).start()
        if not ready.wait(SECONDS) or not self.is_running:
            raise AssertionError(f"broker {self.node_id} did not start:\n{self.output.read_text()[-3000:]}")

    def slow_disk(self, seconds: float) -> None:
        """Every append takes so much longer from now on."""
        new = self._delay.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self._delay)

    def signal(self, number: Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: Signals) -> None:
        if self._process is not None:
            self.signal(number)
            self._process.wait(SECONDS)

    def close(self) -> None:
        if self.is_running:
            self.signal(signal.SIGCONT)  # a paused one would not receive the next signal
            self.kill()
        self.to_zookeeper.close()
        self.from_peers.close()


def _watch(process: subprocess.Popen[str], ready: threading.Event) -> None:
    assert process.stdout is not None
    with process.stdout as output:
        for line in output:
            if line.startswith(READY):
                ready.set()
    ready.set()


class ChaosCluster:
    def __init__(
        self,
        folder: Path,
        brokers: int = 3,
        settings: Mapping[str, str] | None = None,
        protocol: str = PLAINTEXT,
        *,
        tiered: bool = False,
        zookeepers: int = 1,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.store = ChaosStore(folder) if tiered else None
        self.folder = folder
        self._security = Security(protocol, folder)
        self.ensemble = Ensemble(folder, zookeepers) if zookeepers > 1 else None
        self.zookeeper = (self.ensemble or ZooKeeperProcess(folder / "zookeeper")).start()
        of_store = self.store.settings() if self.store is not None else {}
        chosen = {**_SETTINGS, **self._security.of_brokers(), **of_store, **(settings or {})}
        self.brokers = {
            number: BrokerProcess(number, folder, self.zookeeper.addresses, chosen)
            for number in range(1, brokers + 1)
        }
        self.small_disk = SmallDisk(self.brokers[WITH_SMALL_DISK].disk)
        self.has_small_disk = self.small_disk.mount()
        self._addresses = ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers.values())
        self.clients = self._security.of_clients(self._addresses)

    def __enter__(self) -> Self:
        try:
            starting = [threading.Thread(target=broker.start) for broker in self.brokers.values()]
            for thread in starting:
                thread.start()
            for thread in starting:
                thread.join()
            assert all(broker.is_running for broker in self.brokers.values()), "not all brokers started"
            self._security.prepare(self._addresses)
            begin_transactions(self.clients)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for broker in self.brokers.values():
            broker.close()
        self.zookeeper.stop()
        self.small_disk.unmount()
        if self.store is not None:
            self.store.close()

    def metadata(self) -> ClusterMetadata:
        # A new client for each query: a long-lived one answers from its cache.
        return AdminClient(self.clients.confluent).list_topics(timeout=SECONDS)

    def leader(self, topic: str, partition: int = 0) -> int:
        """The topic may have been created a moment ago."""
        found: list[int] = []

        def has_leader() -> bool:
            state = self.metadata().topics.get(topic)
            found[:] = [] if state is None or not state.partitions else [state.partitions[partition].leader]
            return bool(found) and found[0] > 0

        until(has_leader, f"{topic} has a leader")
        return found[0]

    def replicas(self, topic: str, partition: int = 0) -> list[int]:
        self.leader(topic, partition)
        found: list[int] = self.metadata().topics[topic].partitions[partition].replicas
        return found

    def controller(self) -> int:
        controller: int = self.metadata().controller_id
        return controller

    def others(self, node_id: int) -> list[BrokerProcess]:
        return [broker for broker in self.brokers.values() if broker.node_id != node_id]

    def cut_from_peers(self, node_id: int) -> None:
        """Neither reaches the other; clients and ZooKeeper reach both."""
        for other in self.others(node_id):
            other.from_peers.cut(node_id)
            self.brokers[node_id].from_peers.cut(other.node_id)

    def freeze_between_peers(self, node_id: int, way: Way) -> None:
        """Drop requests from others to the broker, or its responses."""
        for other in self.others(node_id):
            self.brokers[node_id].from_peers.freeze(other.node_id, [way])

    def delay_between_peers(self, node_id: int, seconds: float) -> None:
        for other in self.others(node_id):
            other.from_peers.delay(node_id, seconds)
            self.brokers[node_id].from_peers.delay(other.node_id, seconds)

    def heal(self) -> None:
        for broker in self.brokers.values():
            broker.to_zookeeper.heal()
            broker.from_peers.heal()

    def make_whole(self) -> None:
        """Restore all processes after a failed run."""
        self.heal()
        self.small_disk.make_room()
        if self.ensemble is not None:
            self.ensemble.make_whole()
        if self.store is not None:
            self.store.make_whole()
        for broker in self.brokers.values():
            if not broker.is_running:
                broker.start()
            broker.signal(signal.SIGCONT)

    def in_sync(self, topic: str) -> bool:
        found = self.metadata().topics.get(topic)
        return found is not None and all(
            part.leader > 0 and len(part.isrs) == len(part.replicas) for part in found.partitions.values()
        )


_SETTINGS = {
    "barnabas.acks.all.fsync": "never",  # processes are killed here, not machines
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
}
