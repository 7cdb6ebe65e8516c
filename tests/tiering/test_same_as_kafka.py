"""The same scenario on Apache Kafka with LocalTieredStorage and on Barnabas, observed by third-party clients.

Both get the same batches, so segments begin at the same offsets, and every answer can be compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic

from barnabas.testing import EmbeddedBroker
from benchmarks import wire
from benchmarks.clients.fill import send_batches
from tests.support.kafka.broker import ApacheKafka
from tests.support.kafka.jars import KAFKA_VERSION, kafka_libs, requires_java
from tests.support.kafka.tools import run_tool
from tests.support.programs import in_ci
from tests.support.waiting import until

OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
TIMEOUT = 60
BATCHES, RECORDS_IN_BATCH, RECORD_BYTES = 90, 6, 10_000
RECORDS = BATCHES * RECORDS_IN_BATCH
TOPIC = "history"
CONFIG = {
    "remote.storage.enable": "true",
    "segment.bytes": str(1 << 20),
    "local.retention.bytes": "1",
    "retention.ms": "-1",
    "file.delete.delay.ms": "0",
}
OFTEN = {"remote.log.manager.task.interval.ms": "200", "log.retention.check.interval.ms": "200"}
KAFKAS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    "log.initial.task.delay.ms": "100",
}

STORAGE = kafka_libs() / f"kafka-storage-{KAFKA_VERSION}-test.jar"
pytestmark = [
    requires_java,
    pytest.mark.timeout(600),  # JVMs on a loaded machine
    pytest.mark.skipif(not STORAGE.exists() and not in_ci(), reason=f"no {STORAGE.name}: run `make java`"),
]


class Subject(NamedTuple):
    """A broker behind an address."""

    port: int

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def offset(self, spec: str) -> int | None:
        """Like kafka-get-offsets: None if there is none, as for `latest-tiered` before the first copy."""
        address = ("--bootstrap-server", self.bootstrap, "--topic", TOPIC)
        output = run_tool(OFFSETS, *address, "--time", spec).check().stdout.strip()
        return int(output.rpartition(":")[2]) if output else None

    def consumer(self) -> Consumer:
        return Consumer({"bootstrap.servers": self.bootstrap, "group.id": "g", "auto.offset.reset": "error"})


class Both(NamedTuple):
    kafka: Subject
    barnabas: Subject


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("same")
    (folder / "bucket").mkdir()
    expected = {**KAFKAS, **OFTEN, "rsm.config.dir": str(folder / "theirs")}
    ours = {**OFTEN, "remote.log.storage.system.enable": "true", "barnabas.remote.delete.delay.ms": "0"}
    ours["barnabas.remote.storage.url"] = f"file://{folder}/bucket"
    kafka = ApacheKafka(folder / "kafka", heap="512m", settings=expected)
    with kafka, EmbeddedBroker(ours, data_dir=folder / "data") as embedded:
        subjects = Both(Subject(kafka.port), Subject(embedded.port))
        batch = wire.record_batch(RECORD_BYTES, RECORDS_IN_BATCH)
        for subject in subjects:
            fill(subject, batch)
        for subject in subjects:
            until(
                lambda subject=subject: is_copied(subject),  # type: ignore[misc]
                f"{subject} has copied all but its last segment",
                seconds=2 * TIMEOUT,
            )
        yield subjects


def fill(subject: Subject, batch: bytes) -> None:
    admin = subject.admin  # which must live until the answer is there
    admin.create_topics([NewTopic(TOPIC, 1, 1, config=CONFIG)])[TOPIC].result(TIMEOUT)
    until(
        lambda: admin.list_topics(TOPIC, TIMEOUT).topics[TOPIC].partitions,
        "the topic is there",
        seconds=2 * TIMEOUT,
    )
    send_batches("127.0.0.1", subject.port, TOPIC, [batch] * BATCHES)


def is_copied(subject: Subject) -> bool:
    local, tiered = subject.offset("earliest-local"), subject.offset("latest-tiered")
    if local is None or tiered is None:
        return False
    return local == tiered + 1 and local > RECORDS - 2 * (1 << 20) // RECORD_BYTES


def test_kafka_get_offsets_returns_the_same_for_both_tiers(both: Both) -> None:
    for spec in ("earliest", "latest", "earliest-local", "latest-tiered", "max-timestamp"):
        assert both.barnabas.offset(spec) == both.kafka.offset(spec), spec


def test_librdkafka_and_javas_consumer_read_the_same_records(both: Both) -> None:
    for subject in both:
        consumer = subject.consumer()
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        taken: list[int] = []
        while len(taken) < RECORDS:
            records = consumer.consume(RECORDS - len(taken), TIMEOUT)
            assert records, f"{subject}: nothing came after {len(taken)} records"
            for record in records:
                assert record.error() is None, record.error()
                assert record.value() == b"x" * RECORD_BYTES
                taken.append(record.offset() or 0)
        consumer.close()
        assert taken == list(range(RECORDS))
        address = ("--bootstrap-server", subject.bootstrap, "--topic", TOPIC, "--from-beginning")
        output = run_tool(CONSUMER, *address, "--max-messages", str(RECORDS)).check().stdout
        assert output.splitlines() == ["x" * RECORD_BYTES] * RECORDS


def test_offsets_by_time_are_the_same(both: Both) -> None:
    """All records have one of few timestamps: the first of them counts."""
    for subject in both:
        consumer = subject.consumer()
        (first,) = consumer.offsets_for_times([TopicPartition(TOPIC, 0, 1)], TIMEOUT)
        (late,) = consumer.offsets_for_times([TopicPartition(TOPIC, 0, (1 << 45))], TIMEOUT)
        consumer.close()
        assert (first.offset, late.offset) == (0, -1)


def test_kafka_delete_records_and_retention_move_the_log_start_equally(both: Both, tmp_path: Path) -> None:
    wanted = {"partitions": [{"topic": TOPIC, "partition": 0, "offset": 100}], "version": 1}
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps(wanted))
    output = []
    for subject in both:
        command = ("--bootstrap-server", subject.bootstrap, "--offset-json-file", str(file))
        output.append(run_tool(DELETE_RECORDS, *command).check().stdout.replace(subject.bootstrap, ""))
        assert subject.offset("earliest") == 100
        assert below_the_start(subject) == "_AUTO_OFFSET_RESET"
    assert output[0] == output[1]
    for subject in both:
        set_retention(subject, 2 << 20)
    until(
        lambda: all((subject.offset("earliest") or 0) > 200 for subject in both),
        "retention removes remote segments",
        seconds=2 * TIMEOUT,
    )
    until(
        lambda: both.kafka.offset("earliest") == both.barnabas.offset("earliest"),
        "as far as the other",
        seconds=2 * TIMEOUT,
    )


def below_the_start(subject: Subject) -> str:
    """librdkafka's error for a deleted offset."""
    consumer = subject.consumer()
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    try:
        (record,) = consumer.consume(1, TIMEOUT)
        error = record.error()
        assert error is not None
        return str(error.name())
    except KafkaException as error:
        return str(error.args[0].name())
    finally:
        consumer.close()


def set_retention(subject: Subject, size: int) -> None:
    entry = ConfigEntry("retention.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=[entry])
    admin = subject.admin
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(TIMEOUT)
