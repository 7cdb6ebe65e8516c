"""Tiered storage from end to end: real clients, a broker, and a folder as the object store."""

from __future__ import annotations

import asyncio
import re
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from barnabas.broker.tiering.leader_log import TieredLeaderLog
from barnabas.broker.tiering.tiering import Tiering
from barnabas.common.clock import ManualClock
from barnabas.log.segments.scan import BadBatch
from barnabas.metrics.text import render
from barnabas.testing import EmbeddedBroker
from barnabas.tiering.objects.segment_build import at_once
from barnabas.tiering.objects.segment_object import BadObjectError
from tests.support.kafka.jars import requires_java
from tests.support.kafka.tools import run_tool
from tests.support.tiering.stores import BUCKET, s3_options
from tests.support.waiting import until

CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"

TIMEOUT = 60
SEGMENT = 1 << 20
TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": str(SEGMENT),
    "local.retention.bytes": "1",
    "retention.ms": "-1",
    "file.delete.delay.ms": "0",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    (tmp_path / "bucket").mkdir()
    settings = {
        "remote.log.storage.system.enable": "true",
        "barnabas.remote.storage.url": f"file://{tmp_path}/bucket",
        "remote.log.manager.task.interval.ms": "50",
        "log.retention.check.interval.ms": "100",
        "barnabas.remote.delete.delay.ms": "0",
    }
    with EmbeddedBroker(settings, data_dir=tmp_path / "data") as running:
        yield running


def produce(
    broker: EmbeddedBroker, topic: str, first: int, last: int, first_timestamp: int = 1_000_000
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5})
    for number in range(first, last):
        producer.produce(topic, f"{number} ".encode() + bytes(1000), timestamp=first_timestamp + number)
        producer.poll(0)
    assert producer.flush(TIMEOUT) == 0


def consume(broker: EmbeddedBroker, topic: str, count: int, **settings: str) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "auto.offset.reset": "error",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    taken: list[int] = []
    while len(taken) < count:
        records = consumer.consume(min(500, count - len(taken)), timeout=TIMEOUT)
        assert records, f"nothing came after {len(taken)} records"
        for record in records:
            assert record.error() is None, record.error()
            taken.append(int((record.value() or b"").split()[0]))
    consumer.close()
    return taken


def seal(broker: EmbeddedBroker, topic: str) -> None:
    async def roll() -> None:
        broker.broker.replicas.by_name[topic][0].log.roll()

    broker._in_thread().run(roll(), TIMEOUT)


def expire_something_else(broker: EmbeddedBroker) -> None:
    """Wait until retention has been applied to all logs, twice."""
    other = broker.create_topic(configs={"retention.ms": "1"})
    log = broker.broker.replicas.by_name[other][0].log
    for end in (1, 2):
        produce(broker, other, end - 1, end)
        until(lambda end=end: log.log_start_offset == end, "records expire")  # type: ignore[misc]


def local_bases(broker: EmbeddedBroker, topic: str) -> list[int]:
    return sorted(int(path.stem) for path in (broker.data_dir / f"{topic}-0").glob("*.log"))


def objects(tmp_path: Path) -> list[Path]:
    return found(tmp_path, "*.segment")


def found(tmp_path: Path, pattern: str) -> list[Path]:
    """Find it in the store, whose folders may disappear during the search."""
    while True:
        with suppress(FileNotFoundError):
            return sorted((tmp_path / "bucket").rglob(pattern))


def test_segments_no_longer_on_disk_are_read_from_the_store_byte_for_byte(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic = broker.create_topic(configs=TIERED)
    produce(broker, topic, 0, 6000)
    until(lambda: len(local_bases(broker, topic)) == 1, "segments leave the disk")
    assert local_bases(broker, topic)[0] > 4000
    assert len(objects(tmp_path)) >= 5
    assert consume(broker, topic, 6000) == list(range(6000))
    broker.restart()
    produce(broker, topic, 6000, 7000)
    assert consume(broker, topic, 7000) == list(range(7000))


def test_read_committed_reader_skips_aborted_records_in_remote_segments(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic(configs=TIERED)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(TIMEOUT)
    kept: list[int] = []
    for number in range(30):
        producer.begin_transaction()
        records = range(1000 * number, 1000 * number + 100)
        for record in records:
            producer.produce(topic, f"{record} ".encode() + bytes(1000))
        assert producer.flush(TIMEOUT) == 0
        if number % 3:
            producer.abort_transaction(TIMEOUT)
        else:
            producer.commit_transaction(TIMEOUT)
            kept += records
    until(lambda: len(local_bases(broker, topic)) == 1, "segments leave the disk")
    assert consume(broker, topic, len(kept), isolation_level="read_committed") == kept
    assert len(consume(broker, topic, 3000, isolation_level="read_uncommitted")) == 3000


def test_offsets_by_time_and_deleted_records_reach_into_remote_segments(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic = broker.create_topic(configs=TIERED)
    produce(broker, topic, 0, 5000)
    until(lambda: len(local_bases(broker, topic)) == 1, "segments leave the disk")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader"})
    for offset in (0, 1234, 4999):
        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, 1_000_000 + offset)], TIMEOUT)
        assert found.offset == offset
    count = len(objects(tmp_path))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 3000)]).values():
        assert deleted.result(TIMEOUT).low_watermark == 3000
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT) == (3000, 5000)
    until(lambda: len(objects(tmp_path)) < count - 1, "expired segments leave the store")
    consumer.assign([TopicPartition(topic, 0, 3000)])
    (first,) = consumer.consume(1, TIMEOUT)
    assert int((first.value() or b"").split()[0]) == 3000
    consumer.close()


def test_a_topic_that_is_deleted_leaves_nothing_in_the_store(broker: EmbeddedBroker, tmp_path: Path) -> None:
    topic = broker.create_topic(configs=TIERED)
    produce(broker, topic, 0, 3000)
    until(lambda: objects(tmp_path), "segments are copied")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(TIMEOUT)
    until(lambda: not found(tmp_path, f"{topic}.*/**/manifest"), "the manifest is gone")
    until(lambda: not objects(tmp_path), "what the leader was sending stays")


def test_restarted_controller_continues_a_deletion(broker: EmbeddedBroker, tmp_path: Path) -> None:
    topic = broker.create_topic(configs=TIERED)
    produce(broker, topic, 0, 3000)
    until(lambda: objects(tmp_path), "segments are copied")
    (tmp_path / "bucket").rename(tmp_path / "away")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(TIMEOUT)
    broker.stop()
    (tmp_path / "away").rename(tmp_path / "bucket")
    assert objects(tmp_path)
    broker.start()
    until(lambda: not objects(tmp_path), "objects stay")


def test_disabling_deletes_the_remote_part_and_requires_confirmation(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic = broker.create_topic(configs=TIERED)
    produce(broker, topic, 0, 3000)
    until(lambda: len(local_bases(broker, topic)) == 1, "segments leave the disk")
    (base,) = local_bases(broker, topic)
    with pytest.raises(
        KafkaException, match="It is invalid to disable remote storage without deleting remote data"
    ):
        configure(broker, topic, {"remote.storage.enable": "false"})
    assert objects(tmp_path)
    configure(broker, topic, {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"})
    until(lambda: not objects(tmp_path), "objects stay")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader"})
    until(
        lambda: consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT) == (base, 3000),
        "the log does not start on the disk",
    )
    consumer.close()
    with pytest.raises(KafkaException, match="is still being deleted"):
        configure(broker, topic, {"remote.storage.enable": "true"})
    broker.restart()
    produce(broker, topic, 3000, 5000)
    assert objects(tmp_path) == []


def configure(broker: EmbeddedBroker, topic: str, values: dict[str, str]) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in values.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT)


def test_unavailable_store_does_not_block_local_writes_and_reads(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic = broker.create_topic(configs=TIERED)
    produce(broker, topic, 0, 3000)
    until(lambda: len(local_bases(broker, topic)) == 1, "segments leave the disk")
    (tmp_path / "bucket").rename(tmp_path / "away")
    produce(broker, topic, 3000, 6000)
    assert len(local_bases(broker, topic)) > 1
    (tmp_path / "away").rename(tmp_path / "bucket")
    assert consume(broker, topic, 6000) == list(range(6000))
    until(lambda: len(local_bases(broker, topic)) == 1, "copying goes on")


def test_silent_store_delays_neither_start_nor_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.broker.tiering.tiering.PROBE_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        options = {**s3_options(silent.getsockname()[1]), "timeout": "600s"}
        settings = {
            "remote.log.storage.system.enable": "true",
            "barnabas.remote.storage.url": f"s3://{BUCKET}",
            **{f"rsm.config.{name}": value for name, value in options.items()},
        }
        with EmbeddedBroker(settings, data_dir=tmp_path / "data") as broker:
            assert "did not respond" in broker.broker.tiering.describe_broker().error


def test_a_leader_that_cannot_read_its_manifest_expires_nothing(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Recent records are remote; local ones are backfilled and expired."""
    day_ms = str(24 * 3600 * 1000)
    topic = broker.create_topic(configs={**TIERED, "retention.ms": day_ms, "segment.ms": day_ms})
    young_ms = time.time_ns() // 1_000_000
    produce(broker, topic, 0, 3000, young_ms)
    seal(broker, topic)
    log = broker.broker.replicas.by_name[topic][0].log
    until(lambda: log.local_start_offset and log.tiered_checkpoint.end == 3000, "segments leave the disk")
    produce(broker, topic, 3000, 3100)
    (tmp_path / "bucket").rename(tmp_path / "away")
    (tmp_path / "bucket").mkdir()  # as a disk that is not mounted
    broker.restart()
    produce(broker, topic, 3100, 6000)
    expire_something_else(broker)
    assert broker.broker.replicas.by_name[topic][0].log.log_start_offset == 0
    shutil.rmtree(tmp_path / "bucket")
    (tmp_path / "away").rename(tmp_path / "bucket")
    assert consume(broker, topic, 6000) == list(range(6000))


@requires_java
def test_javas_consumer_and_offset_tool_see_both_tiers_as_one_log(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic(configs=TIERED)
    produce(broker, topic, 0, 3000)
    until(lambda: len(local_bases(broker, topic)) == 1, "segments leave the disk")
    address = ("--bootstrap-server", broker.bootstrap_servers, "--topic", topic)
    read = run_tool(CONSUMER, *address, "--from-beginning", "--max-messages", "3000").check()
    assert [int(line.split()[0]) for line in read.stdout.splitlines()] == list(range(3000))
    (base,) = local_bases(broker, topic)
    for time_text, offset in (("-2", 0), ("-4", base), ("-5", base - 1), ("-1", 3000)):
        output = run_tool(OFFSETS, *address, "--time", time_text).check()
        assert output.stdout.strip() == f"{topic}:0:{offset}"


def test_copied_and_read_bytes_are_measured(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic(configs=TIERED)
    produce(broker, topic, 0, 3000)
    until(lambda: len(local_bases(broker, topic)) == 1, "segments leave the disk")
    consume(broker, topic, 3000)
    page = render(broker.broker.metrics)
    for name in (
        "remotecopybytes_total",
        "remotecopyrequests_total",
        "remotefetchbytes_total",
        "remotelogsizebytes",
    ):
        line = re.search(
            rf'^kafka_server_brokertopicmetrics_{name}{{topic="{topic}"}} (\S+)$', page, re.MULTILINE
        )
        assert line is not None, name
        assert float(line[1]) > 0
    assert f'remotecopylagbytes{{topic="{topic}"}} 0' in page
    assert "barnabas_remote_store_down 0" in page


BY_TOPIC = [
    "buildremotelogauxstateerrors_total",
    "buildremotelogauxstaterequests_total",
    "remotecopybytes_total",
    "remotecopyerrors_total",
    "remotecopylagbytes",
    "remotecopylagsegments",
    "remotecopyrequests_total",
    "remotedeleteerrors_total",
    "remotedeletelagbytes",
    "remotedeletelagsegments",
    "remotedeleterequests_total",
    "remotefetchbytes_total",
    "remotefetcherrors_total",
    "remotefetchrequests_total",
    "remotelogmetadatacount",
    "remotelogsizebytes",
]
KAFKAS = (
    *(f"kafka_server_brokertopicmetrics_{name}" for name in BY_TOPIC),
    "kafka_log_remote_remotelogmanager_remotelogmanagertasksavgidlepercent",
    "kafka_log_remote_remotelogmanager_remotelogreaderavgidlepercent",
    "kafka_log_remote_remotelogmanager_remotelogreaderfetchrateandtimems_count",
    "kafka_log_remote_remotelogmanager_remotelogreadertaskqueuesize",
    "kafka_server_delayedremotefetchmetrics_expires_total",
    "kafka_server_delayedremotelistoffsetsmetrics_expires_total",
    "kafka_server_remotelogmanager_remote_copy_throttle_time_avg",
    "kafka_server_remotelogmanager_remote_copy_throttle_time_max",
    "kafka_server_remotelogmanager_remote_fetch_throttle_time_avg",
    "kafka_server_remotelogmanager_remote_fetch_throttle_time_max",
    "kafka_server_rlmcopy_byte_rate",
    "kafka_server_rlmfetch_byte_rate",
)
"""Those of Apache Kafka 4.3.1 that apply; docs/tiering.md names the one that does not."""


def measured(broker: EmbeddedBroker, name: str) -> float:
    line = re.search(rf"^{name} (\S+)$", render(broker.broker.metrics), re.MULTILINE)
    assert line is not None, name
    return float(line[1])


def test_kafkas_metrics_exist_and_remote_reads_are_throttled(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic(configs=TIERED)
    produce(broker, topic, 0, 5000)
    until(lambda: len(local_bases(broker, topic)) == 1, "segments leave the disk")
    alter_broker(broker, "remote.log.manager.fetch.max.bytes.per.second", "2000000")
    tiering = broker.broker.tiering
    assert isinstance(tiering, Tiering)
    until(lambda: tiering.chunks.quota.rate == 2_000_000, "the limit is in force")
    assert consume(broker, topic, 5000) == list(range(5000))
    assert measured(broker, "kafka_server_remotelogmanager_remote_fetch_throttle_time_max") > 0
    assert measured(broker, "kafka_server_rlmfetch_byte_rate") > 0
    assert measured(broker, "kafka_log_remote_remotelogmanager_remotelogreaderfetchrateandtimems_count") >= 4
    for name in KAFKAS:
        measured(broker, name)


def alter_broker(broker: EmbeddedBroker, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    (future,) = admin.incremental_alter_configs([resource]).values()
    future.result(TIMEOUT)


def test_metadata_that_come_while_a_broker_stops_start_no_writer(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic(configs=TIERED)
    tiering, partition = broker.broker.tiering, broker.broker.replicas.by_name[topic][0]
    assert isinstance(tiering, Tiering)
    until(lambda: tiering.led, "the partition has a writer")

    async def stop_and_follow() -> None:
        await tiering.stop()
        tiering.follow(partition)
        tiering.applied([])

    broker._in_thread().run(stop_and_follow(), TIMEOUT)
    assert (tiering.led, tiering.remote) == ({}, {})


def test_damaged_local_segment_is_reported_and_retried() -> None:
    """A writer waits after such an error; any other would end it."""

    def read() -> None:
        raise BadBatch(17, "wrong magic")

    segment = SimpleNamespace(file=SimpleNamespace(path="/data/clicks-0/0.log"))
    chosen = SimpleNamespace(base=0, read=read, segments=[segment], generation=0)
    log = SimpleNamespace(
        next_to_copy=lambda now_ms: chosen, offsets=SimpleNamespace(tiered_end=-1), generation=0
    )
    led = TieredLeaderLog(SimpleNamespace(log=log), None, ManualClock(), at_once)  # type: ignore[arg-type]
    with pytest.raises(BadObjectError, match=r"0\.log is damaged: wrong magic"):
        asyncio.run(led.next_sealed(0))
