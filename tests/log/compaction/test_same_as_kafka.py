"""The same log, compacted by Apache Kafka and Barnabas, has the same batches."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic  # the stubs of confluent_kafka.admin do not export it

from barnabas.common.clock import SystemClock
from barnabas.common.files import LocalFileSystem
from barnabas.common.types import TopicPartition
from barnabas.config.topic import LogConfig
from barnabas.log.checkpoints import CLEANED_OFFSETS, decode_offsets
from barnabas.records.batch import BatchHeader, iterate_headers
from barnabas.records.record import Record, iterate_records
from tests.support.builders.compacted_logs import clean
from tests.support.builders.logs import managed
from tests.support.kafka.broker import ApacheKafka
from tests.support.kafka.jars import requires_java
from tests.support.waiting import until

TOPIC = "compared"
PARTITION = TopicPartition(TOPIC, 0)
DEADLINE = 60.0
WAITING = {"cleanup.policy": "delete"}
COMPACTING = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0001"}
CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}), segment_bytes=20_000, delete_retention_ms=0, file_delete_delay_ms=0
)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    settings = {"log.cleaner.backoff.ms": "100", "transaction.state.log.num.partitions": "1"}
    with ApacheKafka(tmp_path_factory.mktemp("kafka"), heap="256m", settings=settings) as kafka:
        config = {**WAITING, "internal.segment.bytes": "20000", "delete.retention.ms": "0"}
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=config)])[TOPIC].result(DEADLINE)
        yield kafka


def alter(kafka: ApacheKafka, config: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in config.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(DEADLINE)


def write(kafka: ApacheKafka, part: int) -> None:
    """Every codec, repeated and single keys, long ones, tombstones, idempotence, commits and aborts."""
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "compression.type": codec,
                "enable.idempotence": True,
                "linger.ms": 5,
            }
        )
        for number in range(150):
            key = f"key-{number * 7 % 40}" if number % 5 else f"{'long' * 10}-{number % 20}"
            value = None if number % 11 == 10 else f"{codec}-{part}-{number}-{len(codec) * 'x'}"
            producer.produce(TOPIC, value, key)
            if number % 13 == 0:
                producer.flush(DEADLINE)
        producer.produce(TOPIC, "stays", f"only-{codec}-{part}")
        producer.flush(DEADLINE)
    for number in range(12):
        transaction(kafka, f"transaction-{number % 3}", f"key-{number}", commits=number % 4 != 3, part=part)
    for number in range(200):  # fills the segment up, so that all of the above is sealed
        producer.produce(TOPIC, "f" * 150, f"filler-{number}-{part}")
    producer.flush(DEADLINE)


def transaction(kafka: ApacheKafka, name: str, key: str, *, commits: bool, part: int) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(DEADLINE)
    producer.begin_transaction()
    for number in range(3):
        producer.produce(TOPIC, f"{name}-{part}", f"{key}-{number}")
    producer.flush(DEADLINE)
    if commits:
        producer.commit_transaction(DEADLINE)
    else:
        producer.abort_transaction(DEADLINE)


def cleaned_upto(kafka: ApacheKafka) -> int:
    noted = (kafka.log_dir / CLEANED_OFFSETS).read_bytes()  # empty at first
    return decode_offsets(noted).get(PARTITION, 0) if noted else 0


def active_base(folder: Path) -> int:
    return max(int(path.stem) for path in folder.glob("*.log"))


def wait_until_compacted(kafka: ApacheKafka, upto: int) -> None:
    until(lambda: cleaned_upto(kafka) >= upto, "Kafka has not compacted the log in time")


def batches(folder: Path, below: int) -> list[tuple[BatchHeader, list[Record]]]:
    found = []
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        for position, header in iterate_headers(data):
            if header.base_offset < below:
                records = list(iterate_records(data[position : position + header.size], header))
                found.append((_comparable(header), records))
    return found


def _comparable(header: BatchHeader) -> BatchHeader:
    """Without values that depend on time (the delete horizon) or the compressor."""
    return header._replace(length=0, crc=0, base_timestamp=0)


def compact_copy(kafka: ApacheKafka, folder: Path, upto: int) -> Path:
    """Our compaction of a copy of Kafka's files."""
    shutil.copytree(kafka.log_dir / str(PARTITION), folder / str(PARTITION))
    now_ms = SystemClock().now_ms()
    logs = managed(LocalFileSystem(), str(folder))
    report = logs.load(lambda partition, topic_id: CONFIG)
    assert not report.damaged
    log = logs.get(PARTITION)
    assert log is not None
    log.advance_high_watermark(log.log_end_offset)
    assert clean(log, upto, now_ms)
    logs.close()
    return folder / str(PARTITION)


@requires_java
def test_the_same_batches_stay_with_the_same_records(kafka: ApacheKafka, tmp_path: Path) -> None:
    for part in range(3):
        write(kafka, part)
        upto, upper = cleaned_upto(kafka), active_base(kafka.log_dir / str(PARTITION))
        before = batches(kafka.log_dir / str(PARTITION), upper)
        ours = compact_copy(kafka, tmp_path / f"part-{part}", upto)
        alter(kafka, COMPACTING)
        wait_until_compacted(kafka, upper)
        alter(kafka, WAITING)
        expected = batches(kafka.log_dir / str(PARTITION), upper)
        assert len(expected) < len(before)
        assert batches(ours, upper) == expected
