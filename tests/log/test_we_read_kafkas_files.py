"""A folder written by Apache Kafka is opened unchanged: records, producers, transactions, epochs."""

import hashlib
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic  # the stubs of confluent_kafka.admin do not export it

from barnabas.common.clock import SystemClock
from barnabas.common.files import LocalFileSystem
from barnabas.common.types import TopicPartition
from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import LogConfig
from barnabas.log import checkpoints
from barnabas.log.dirs import properties
from barnabas.log.dirs.manager import LogManager
from barnabas.log.log import Log
from barnabas.log.recovery.verification import ShutdownKind
from tests.support.builders.logs import append, batch, read_all
from tests.support.kafka.broker import ApacheKafka
from tests.support.kafka.jars import requires_java

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITION = TopicPartition("adopted", 0)


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log dir of a broker that has written with every codec, and stopped."""
    kafka = ApacheKafka(
        tmp_path_factory.mktemp("kafka"),
        heap="256m",
        settings={"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"},
    )
    kafka.start()
    try:
        config = {"index.interval.bytes": "100", "segment.bytes": str(1024 * 1024)}
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        admin.create_topics([NewTopic(PARTITION.topic, 1, 1, config=config)])[PARTITION.topic].result()
        _produce(kafka.bootstrap_servers)
    finally:
        kafka.stop()
    return kafka.log_dir


def _produce(bootstrap: str) -> None:
    for codec in CODECS:
        producer = Producer(
            {"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True}
        )
        for number in range(50):
            producer.produce(PARTITION.topic, f"{codec} {number}".encode(), key=codec.encode())
        producer.flush()
    for outcome in ("commit", "abort"):
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": outcome})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce(PARTITION.topic, outcome.encode())
        producer.flush()
        if outcome == "commit":
            producer.commit_transaction()
        else:
            producer.abort_transaction()


def load(log_dir: Path, only: TopicPartition) -> tuple[LogManager, Log, ShutdownKind]:
    logs = LogManager(LocalFileSystem(), [str(log_dir)], SystemClock(), BrokerConfig.load({}))
    logs.lock()
    assert logs.cluster_id
    logs.claim(logs.cluster_id, 1)
    report = logs.load(lambda partition, topic_id: LogConfig())
    log = logs.get(only)
    assert log is not None
    return logs, log, report.stops[str(log_dir)]


@requires_java
def test_kafkas_small_files_equal_ours(log_dir: Path) -> None:
    folder = log_dir / str(PARTITION)
    metadata = (folder / "partition.metadata").read_bytes()
    assert checkpoints.encode_partition_metadata(checkpoints.decode_partition_metadata(metadata)) == metadata
    epochs = (folder / "leader-epoch-checkpoint").read_bytes()
    assert checkpoints.encode_epochs(checkpoints.decode_epochs(epochs)) == epochs
    for name in (checkpoints.RECOVERY_POINTS, checkpoints.LOG_STARTS, checkpoints.HIGH_WATERMARKS):
        contents = (log_dir / name).read_bytes()
        assert checkpoints.encode_offsets(checkpoints.decode_offsets(contents)) == contents
    meta = (log_dir / properties.META_PROPERTIES).read_text()
    ours = properties.MetaProperties.decode(meta.encode()).encode().decode()
    assert _settings(ours) == _settings(meta)


def _settings(text: str) -> list[str]:
    """Java writes properties in no particular order."""
    return sorted(line for line in text.splitlines() if line and not line.startswith("#"))


@requires_java
def test_a_folder_of_kafka_is_served_with_identical_records(log_dir: Path) -> None:
    kraft = log_dir / "__cluster_metadata-0"
    before = _fingerprint(kraft)
    logs, log, stop = load(log_dir, PARTITION)
    assert stop is ShutdownKind.CLEAN
    values = [value for _, value in read_all(log)]
    assert values == [f"{codec} {n}".encode() for codec in CODECS for n in range(50)] + [b"commit", b"abort"]
    assert log.high_watermark == log.log_end_offset
    aborted = log.aborted_transactions(0, log.log_end_offset)
    assert len(aborted) == 1
    assert len(log.producers) == 7
    assert log.epochs.latest == 0
    assert append(log, batch(b"ours"), now_ms=SystemClock().now_ms()).first_offset == log.log_end_offset - 1
    logs.close()
    assert _fingerprint(kraft) == before

    logs, log, _ = load(log_dir, PARTITION)
    assert read_all(log)[-1][1] == b"ours"
    assert log.aborted_transactions(0, log.log_end_offset) == aborted
    logs.close()


def _fingerprint(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}
