"""Brokers of commit 9b546e8, which does not support Envelope, are upgraded and downgraded one by one under load."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.cluster.features import ENVELOPE_LEVEL, METADATA_VERSION, NEWEST_LEVEL
from barnabas.cluster.zookeeper.process import ZooKeeperProcess, lasting_port
from barnabas.common.errors import ErrorCode
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.cluster import (
    DescribeClusterRequest,
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)
from barnabas.protocol.messages.metadata import (
    ApiVersionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from barnabas.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    DescribeClientQuotasRequest,
    EntityData,
    OpData,
)
from barnabas.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.schema import Message
from benchmarks.gate import source_of
from tests.support.clients import RawConnection
from tests.support.programs import PROJECT_ROOT
from tests.support.waiting import eventually, until
from tests.support.zookeeper import require_zookeeper

OLD = "9b546e8"
PREVIOUS = "1b1e095"
NEW = PROJECT_ROOT / "src"
TIMEOUT = 90.0
TOPIC = "load"


class Node:
    """`barnabas serve` of one version or another, which keeps its ports and its folder."""

    def __init__(self, number: int, folder: Path, zookeeper: str) -> None:
        self.number = number
        self.port = lasting_port()
        self.peer_port = lasting_port()
        self._output = folder / f"broker-{number}.log"
        self._config = folder / f"broker-{number}.properties"
        self._process: subprocess.Popen[str] | None = None
        settings = {
            "node.id": number,
            "log.dirs": folder / f"data-{number}",
            "zookeeper.connect": f"{zookeeper}/rolling",
            "listeners": f"CLIENT://127.0.0.1:{self.port},PEER://127.0.0.1:{self.peer_port}",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,PEER:PLAINTEXT",
            "inter.broker.listener.name": "PEER",
            "default.replication.factor": 3,
            "min.insync.replicas": 2,
            "barnabas.acks.all.fsync": "never",
        }
        self._config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def start(self, source: Path) -> None:
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "barnabas", "serve", "--config", str(self._config)],
                env={**os.environ, "PYTHONPATH": str(source)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=output,
                text=True,
            )
        until(
            lambda: self.is_in_service,
            lambda: f"broker {self.number} does not start:\n{self._output.read_text()[-3000:]}",
            TIMEOUT,
        )

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(TIMEOUT)
            self._process = None

    def refusal(self, source: Path) -> str:
        """Error output of a version that does not start."""
        message = self._output.stat().st_size
        environment = {**os.environ, "PYTHONPATH": str(source)}
        command = [sys.executable, "-m", "barnabas", "serve", "--config", str(self._config)]
        with self._output.open("ab") as output:
            ended = subprocess.run(
                command, env=environment, stdout=output, stderr=output, timeout=TIMEOUT, check=False
            )
        assert ended.returncode != 0
        return self._output.read_text()[message:]

    @property
    def is_in_service(self) -> bool:
        """Does it know itself among the brokers?"""
        try:
            answer = self.ask(DescribeClusterRequest(), 0)
        except (OSError, AssertionError):
            return False
        return any(broker.broker_id == self.number for broker in answer.brokers)

    def ask(self, request: Message, version: int) -> Any:
        with RawConnection(self.port, timeout=30) as connection:
            return connection.ask(request, version)

    def lists_envelope(self) -> bool:
        with RawConnection(self.peer_port) as connection:
            answer: Any = connection.ask(ApiVersionsRequest(), 0)
        return ApiKey.ENVELOPE in {api.api_key for api in answer.api_keys}


class Load:
    """A producer that wants acks=all for every record, and clients that create topics through every broker."""

    def __init__(self, nodes: list[Node]) -> None:
        self._nodes = nodes
        self._producer = Producer(
            {
                "bootstrap.servers": ",".join(f"127.0.0.1:{node.port}" for node in nodes),
                "enable.idempotence": True,
                "linger.ms": 5,
            }
        )
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._produce)
        self.written = 0
        self.failed: list[str] = []
        self.created = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        self._thread.join()

    def _produce(self) -> None:
        while not self._ends.is_set():
            self._producer.produce(TOPIC, b"record", on_delivery=self._delivered)
            self._producer.poll(0.005)
        self._producer.flush(TIMEOUT)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.written += 1
        else:
            self.failed.append(str(error))

    def create_through_every_broker(self) -> None:
        """Create by CreateTopics and by auto-creation, through each broker."""
        for node in self._nodes:
            self.created += 1
            name = f"topic-{self.created}"
            answer = node.ask(CreateTopicsRequest([CreatableTopic(name, 1, 1)], 30_000), 5)
            assert answer.topics[0].error_code == ErrorCode.NONE, answer
            requested = MetadataRequest([MetadataRequestTopic(name=f"{name}-asked")])
            eventually(
                partial(node.ask, requested, 9), lambda answer: not answer.topics[0].error_code, TIMEOUT
            )


def in_sync(nodes: list[Node]) -> bool:
    answer = nodes[0].ask(MetadataRequest([MetadataRequestTopic(name=TOPIC)]), 9)
    return all(len(partition.isr_nodes) == len(nodes) for partition in answer.topics[0].partitions)


def exchange(nodes: list[Node], source: Path, load: Load) -> None:
    """Run another version on one broker after the other; topics are created at every step."""
    for node in nodes:
        until(lambda: in_sync(nodes), "the replicas do not get in sync", TIMEOUT)
        node.stop()
        node.start(source)
        load.create_through_every_broker()


def finalized_level(node: Node) -> int:
    answer = node.ask(ApiVersionsRequest("test", "1"), 3)
    levels: dict[str, int] = {each.name: each.max_version_level for each in answer.finalized_features}
    return levels[METADATA_VERSION]


def limit(node: Node) -> int:
    """Set a quota, which only the newest metadata level can encode."""
    user = AlterClientQuotasRequestEntryData(
        [EntityData("user", f"of-{node.number}")], [OpData("request_percentage", 50.0)]
    )
    (entry,) = node.ask(AlterClientQuotasRequest([user]), 1).entries
    assert not entry.error_code or "barnabas cluster upgrade" in entry.error_message
    return int(entry.error_code)


def is_limited(node: Node) -> bool:
    return len(node.ask(DescribeClientQuotasRequest(), 1).entries) == 3


def count_of(nodes: list[Node]) -> int:
    consumer = Consumer(
        {"bootstrap.servers": f"127.0.0.1:{nodes[0].port}", "group.id": "count", "enable.auto.commit": False}
    )
    low, high = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=TIMEOUT)
    consumer.close()
    return int(high - low)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[Node]]:
    require_zookeeper()
    zookeeper = ZooKeeperProcess(tmp_path / "zookeeper").start()
    started = [Node(number, tmp_path, zookeeper.address) for number in (1, 2, 3)]
    try:
        yield started
    finally:
        for node in started:
            node.stop()
        zookeeper.stop()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_topics_are_created_and_records_kept_while_brokers_are_upgraded_and_downgraded(
    nodes: list[Node],
) -> None:
    with source_of(OLD) as old:
        for node in nodes:
            node.start(old)
        nodes[0].ask(CreateTopicsRequest([CreatableTopic(TOPIC, 1, 3)], 30_000), 5)
        with Load(nodes) as load:
            load.create_through_every_broker()
            exchange(nodes, NEW, load)
            assert all(node.lists_envelope() for node in nodes)
            assert finalized_level(nodes[0]) < ENVELOPE_LEVEL
            assert [limit(node) for node in nodes] == [ErrorCode.UNSUPPORTED_VERSION] * 3
            exchange(nodes, old, load)
            assert not any(node.lists_envelope() for node in nodes)
            exchange(nodes, NEW, load)
            wanted = FeatureUpdateKey(METADATA_VERSION, NEWEST_LEVEL)
            answer = nodes[0].ask(UpdateFeaturesRequest(feature_updates=[wanted]), 1)
            assert answer.error_code == ErrorCode.NONE, answer
            until(
                lambda: all(finalized_level(node) == NEWEST_LEVEL for node in nodes),
                "the level is not finalized everywhere",
                TIMEOUT,
            )
            load.create_through_every_broker()
            assert [limit(node) for node in nodes] == [ErrorCode.NONE] * 3
            until(lambda: all(map(is_limited, nodes)), "a quota is not known everywhere", TIMEOUT)
        nodes[2].stop()
        assert "upgrade" in nodes[2].refusal(old)
        nodes[2].start(NEW)
        assert load.failed == []
        assert load.written > 100
        assert count_of(nodes) == load.written


@pytest.mark.extended
@pytest.mark.timeout(600)
def test_records_are_kept_while_brokers_of_the_previous_version_are_upgraded_and_downgraded(
    nodes: list[Node],
) -> None:
    with source_of(PREVIOUS) as old:
        for node in nodes:
            node.start(old)
        nodes[0].ask(CreateTopicsRequest([CreatableTopic(TOPIC, 1, 3)], 30_000), 5)
        level = finalized_level(nodes[0])
        with Load(nodes) as load:
            for source in (NEW, old, NEW):
                exchange(nodes, source, load)
                assert [limit(node) for node in nodes] == [ErrorCode.NONE] * 3
                assert finalized_level(nodes[0]) == level
        assert load.failed == []
        assert count_of(nodes) == load.written
