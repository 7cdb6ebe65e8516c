"""A broker with a folder as object store, and topics that are copied immediately."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.testing import EmbeddedBroker
from tests.support.cli import Cli
from tests.support.waiting import until

TIMEOUT = 60
RECORDS = 3000
TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": str(1 << 20),
    "local.retention.bytes": "1",
    "retention.ms": "-1",
    "file.delete.delay.ms": "0",
}


@dataclass(frozen=True)
class Tiered:
    """A broker and its bucket."""

    broker: EmbeddedBroker
    bucket: Path

    @property
    def url(self) -> str:
        return f"file://{self.bucket}"

    def topic(self, partitions: int = 1) -> str:
        """A topic with `RECORDS` in each partition, of which the sealed segments have left the disk."""
        topic = self.broker.create_topic(partitions=partitions, configs=TIERED)
        produce(self.broker, topic, partitions)
        for index in range(partitions):
            until(lambda index=index: len(self.local_segments(topic, index)) == 1, "segments leave the disk")  # type: ignore[misc]
        return topic

    def produce(self, topic: str) -> None:
        produce(self.broker, topic, 1)

    def local_segments(self, topic: str, partition: int = 0) -> list[int]:
        folder = self.broker.data_dir / f"{topic}-{partition}"
        return sorted(int(path.stem) for path in folder.glob("*.log"))

    def segments(self, topic: str, partition: int = 0) -> list[Path]:
        return sorted(self.bucket.glob(f"*/topics/{topic}.*/{partition}/*.segment"))

    def manifest(self, topic: str, partition: int = 0) -> Path:
        (found,) = self.bucket.glob(f"*/topics/{topic}.*/{partition}/manifest")
        return found

    def read(self, topic: str, partition: int = 0) -> list[int]:
        return consume(self.broker, topic, partition)


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiered]:
    folder = tmp_path_factory.mktemp("tiers")
    (folder / "bucket").mkdir()
    settings = {
        "remote.log.storage.system.enable": "true",
        "barnabas.remote.storage.url": f"file://{folder}/bucket",
        "remote.log.manager.task.interval.ms": "50",
        "log.retention.check.interval.ms": "100",
    }
    with EmbeddedBroker(settings, data_dir=folder / "data") as running:
        yield Tiered(running, folder / "bucket")


@pytest.fixture
def cli(tiered: Tiered) -> Cli:
    return Cli(tiered.broker.bootstrap_servers)


def produce(broker: EmbeddedBroker, topic: str, partitions: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5})
    for partition in range(partitions):
        for number in range(RECORDS):
            producer.produce(topic, f"{number} ".encode() + bytes(1000), partition=partition)
            producer.poll(0)
    assert producer.flush(TIMEOUT) == 0


def consume(broker: EmbeddedBroker, topic: str, partition: int) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "auto.offset.reset": "error",
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    taken: list[int] = []
    while len(taken) < RECORDS:
        records = consumer.consume(RECORDS - len(taken), timeout=TIMEOUT)
        assert records, f"nothing came after {len(taken)} records"
        for record in records:
            assert record.error() is None, record.error()
            taken.append(int((record.value() or b"").split()[0]))
    consumer.close()
    return taken
