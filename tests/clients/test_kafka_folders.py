"""A data folder that Apache Kafka wrote is opened and served: same topics, same ids, same records."""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from barnabas.cluster import METADATA_FOLDER
from barnabas.testing import EmbeddedBroker
from tests.support.kafka.broker import ApacheKafka
from tests.support.programs import free_port

pytestmark = pytest.mark.java

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
PLAIN, TRANSACTIONAL = "plain", "transactional"


class Seen(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: object


def read(bootstrap: str, topic: str, partition: int, isolation: str) -> list[Seen]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    seen: list[Seen] = []
    while (message := consumer.poll(60)) is not None and message.error() is None:
        seen.append(
            Seen(
                message.offset() or 0,
                message.timestamp()[1],
                message.key(),
                message.value(),
                message.headers(),
            )
        )
    consumer.close()
    return seen


def fill(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [
        NewTopic(PLAIN, 2, config={"retention.ms": "-1", "segment.bytes": "1048576"}),
        NewTopic(TRANSACTIONAL, 1),
    ]
    for created in admin.create_topics(topics).values():
        created.result()
    for codec in CODECS:
        producer = Producer(
            {"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True}
        )
        for number in range(300):
            headers: list[tuple[str, str | bytes | None]] = [("n", b"%d" % number)]
            producer.produce(PLAIN, b"%d " % number * 100, key=codec, headers=headers, partition=number % 2)
        assert producer.flush(60) == 0
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "writer", "linger.ms": 0})
    producer.init_transactions(20)
    for number in range(10):
        producer.begin_transaction()
        producer.produce(TRANSACTIONAL, b"%d" % number)
        producer.flush(60)
        (producer.abort_transaction if number % 3 == 0 else producer.commit_transaction)(20)


def topic_ids(bootstrap: str) -> dict[str, str]:
    from confluent_kafka import TopicCollection

    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.describe_topics(TopicCollection([PLAIN, TRANSACTIONAL]))
    return {name: str(future.result().topic_id) for name, future in described.items()}


def everything(bootstrap: str) -> dict[str, object]:
    return {
        "ids": topic_ids(bootstrap),
        "plain": [read(bootstrap, PLAIN, partition, "read_uncommitted") for partition in (0, 1)],
        "uncommitted": read(bootstrap, TRANSACTIONAL, 0, "read_uncommitted"),
        "committed": read(bootstrap, TRANSACTIONAL, 0, "read_committed"),
    }


@dataclass(frozen=True)
class Written:
    """Folders of one Apache Kafka, by kind of shutdown, with the records it served."""

    folders: dict[str, Path]
    served: dict[str, object]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder = tmp_path_factory.mktemp("kafka")
    folders = {ending: folder / ending for ending in ("clean", "killed")}
    with ApacheKafka(folder / "kafka", free_port(), heap="256m") as kafka:
        fill(kafka.bootstrap_servers)
        served = everything(kafka.bootstrap_servers)
        # Its state while suspended equals that after a kill.
        os.kill(kafka.pid, signal.SIGSTOP)
        try:
            shutil.copytree(kafka.log_dir, folders["killed"])
        finally:
            os.kill(kafka.pid, signal.SIGCONT)
    shutil.copytree(kafka.log_dir, folders["clean"])
    return Written(folders, served)


@pytest.mark.parametrize("ending", ["clean", "killed"])
def test_a_folder_of_apache_kafka_is_served_with_identical_records(written: Written, ending: str) -> None:
    folder = written.folders[ending]
    assert (folder / ".kafka_cleanshutdown").exists() == (ending == "clean")
    metadata = folder / "__cluster_metadata-0"
    before = {path.name: path.read_bytes() for path in metadata.iterdir() if path.is_file()}
    with EmbeddedBroker(data_dir=folder) as broker:
        assert everything(broker.bootstrap_servers) == written.served
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        resource = ConfigResource(ResourceType.TOPIC, PLAIN)
        assert admin.describe_configs([resource])[resource].result()["retention.ms"].value == "-1"
        assert "__cluster_metadata" not in admin.list_topics(timeout=60).topics
    assert {path.name: path.read_bytes() for path in metadata.iterdir() if path.is_file()} == before


KEPT = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")


def files_of(folder: Path) -> dict[str, bytes]:
    """Files of the logs by partition."""
    return {
        f"{path.parent.name}/{path.name}": path.read_bytes()
        for path in sorted(folder.glob("*-*/*"))
        if path.suffix in KEPT and not path.parent.name.startswith("__cluster_metadata")
    }


@pytest.mark.extended  # fifteen starts; tests/broker/processes has a shorter one
@pytest.mark.parametrize("ending", ["clean", "killed"])
def test_a_folder_goes_through_any_number_of_processes_and_back(
    written: Written, tmp_path: Path, ending: str
) -> None:
    """Kafka -> 1 -> 4 -> 8 -> 1 -> Kafka: transfers copy nothing and change no file of a log."""
    folder = shutil.copytree(written.folders["clean"], tmp_path / "kafka" / "logs")
    before = files_of(folder)
    for count in (1, 4, 8, 1):
        broker = EmbeddedBroker(data_dir=folder, processes=count).start()
        try:
            assert everything(broker.bootstrap_servers) == written.served
            leaders = leader_counts(broker.bootstrap_servers)
            assert len(leaders) == count
            assert max(leaders.values()) - min(leaders.values()) <= 1
        finally:
            broker.kill() if ending == "killed" else broker.stop()
        assert not list(folder.glob("*-stray"))
        if ending == "clean":
            assert files_of(folder) == before
    with EmbeddedBroker(data_dir=folder):
        pass  # the end state is compared after a stop in order, also if every step was killed
    logs = {name: data for name, data in before.items() if name.endswith(".log")}
    assert {name: data for name, data in files_of(folder).items() if name.endswith(".log")} == logs
    shutil.rmtree(folder / METADATA_FOLDER)  # Kafka refuses folders that are no partitions
    with ApacheKafka(tmp_path / "kafka", free_port(), heap="256m") as kafka:
        assert everything(kafka.bootstrap_servers) == written.served


def leader_counts(bootstrap: str) -> Counter[int]:
    topics = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=60).topics.values()
    return Counter(partition.leader for topic in topics for partition in topic.partitions.values())
