"""Replicas move between log dirs under real clients, controlled by Kafka's tools."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.replication.log_dir_moves import READ_BYTES
from barnabas.testing import EmbeddedBroker
from tests.support.kafka.tools import run_tool
from tests.support.waiting import until

LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
DEADLINE = 60.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    # Synced, so that acknowledgements must not get lost when a flush is due in the middle of the change.
    settings = {
        "log.dirs": ",".join(str(tmp_path / name) for name in "abc"),
        "barnabas.acks.all.fsync": "always",
    }
    with EmbeddedBroker(settings) as running:
        yield running


def tool(broker: EmbeddedBroker, name: str, *args: str) -> str:
    return run_tool(name, "--bootstrap-server", broker.bootstrap_servers, *args).check().stdout


class Traffic:
    """An idempotent producer that keeps writing, and a consumer that keeps reading."""

    def __init__(self, broker: EmbeddedBroker, topic: str) -> None:
        self._topic = topic
        self._servers = {"bootstrap.servers": broker.bootstrap_servers}
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._write), threading.Thread(target=self._read)]
        self.sent = 0
        self.failed: list[str] = []
        self.read: list[int] = []

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(DEADLINE)

    def _write(self) -> None:
        producer = Producer({**self._servers, "enable.idempotence": True, "linger.ms": 2})
        while not self._stop.is_set():
            producer.produce(
                self._topic, str(self.sent).encode() + b" " * 2000, partition=0, callback=self._note
            )
            self.sent += 1
            producer.poll(0.001)
        assert producer.flush(DEADLINE) == 0

    def _note(self, error: object, message: object) -> None:
        if error is not None:
            self.failed.append(str(error))

    def _read(self) -> None:
        consumer = Consumer({**self._servers, "group.id": "readers", "enable.auto.commit": False})
        consumer.assign([TopicPartition(self._topic, 0, 0)])
        end = time.monotonic() + 2 * DEADLINE
        while time.monotonic() < end and not (self._stop.is_set() and len(self.read) >= self.sent):
            message = consumer.poll(0.2)
            if message is not None and (value := message.value()) is not None:
                self.read.append(int(value))
        consumer.close()


def replicas(broker: EmbeddedBroker, topic: str) -> dict[str, bool]:
    """Dir -> True for a future replica, from kafka-log-dirs."""
    output = tool(broker, LOG_DIRS, "--describe", "--topic-list", topic)
    described = json.loads(output[output.index("{") :])
    return {
        Path(log_dir["logDir"]).name: partition["isFuture"]
        for log_dir in described["brokers"][0]["logDirs"]
        for partition in log_dir["partitions"]
    }


@pytest.mark.java
def test_kafkas_tools_move_a_replica_while_it_is_written_and_read(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    broker.create_topic("orders", partitions=1)
    logs = broker.broker.logs
    log = next(log for log in logs if log.topic_partition.topic == "orders")
    home = Path(log.folder).parent.name
    target = next(name for name in "abc" if name != home)
    plan = tmp_path / "plan.json"
    wanted = {"topic": "orders", "partition": 0, "replicas": [1], "log_dirs": [str(tmp_path / target)]}
    plan.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
    arguments = ("--reassignment-json-file", str(plan))
    with Traffic(broker, "orders") as traffic:
        # More than a single read: the first one is not throttled.
        until(lambda: log.size_bytes > 3 * READ_BYTES, "nothing is written")
        slowly = ("--replica-alter-log-dirs-throttle", "20000")
        tool(broker, REASSIGN, "--execute", *arguments, *slowly)
        assert replicas(broker, "orders") == {home: False, target: True}
        output = tool(broker, REASSIGN, "--verify", *arguments)
        assert "Reassignment of replica orders-0-1 is still in progress." in output
        fast = ("--additional", "--replica-alter-log-dirs-throttle", "1000000000")
        tool(broker, REASSIGN, "--execute", *arguments, *fast)
        until(lambda: not list(logs.moves), "the replica does not arrive")
        after = traffic.sent
        until(lambda: traffic.sent > after + 100, "nothing can be written any more")
        output = tool(broker, REASSIGN, "--verify", *arguments)
        assert "Reassignment of replica orders-0-1 completed successfully." in output
    assert traffic.failed == []
    assert traffic.read == list(range(traffic.sent))
    assert Path(log.folder) == tmp_path / target / "orders-0"
    assert all(path.name.endswith("-delete") for path in (tmp_path / home).glob("orders*"))
