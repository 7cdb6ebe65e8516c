"""Tiered topics read from an object store without a broker: the same rows as from a broker."""

from __future__ import annotations

import asyncio
import json
import pickle
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from barnabas.spark.errors import DataLossError, SourceError
from barnabas.spark.options import OptionError
from barnabas.spark.source import make_reader, make_stream_reader, schema_of
from barnabas.spark.source.remote_topics import RemoteTopics
from barnabas.spark.source.settings import SourceSettings
from barnabas.spark.source.stream import BatchReader, StreamReader
from barnabas.testing import EmbeddedBroker
from barnabas.tiering.objects.layout import parse_partition_prefix
from barnabas.tiering.snapshots import create_snapshot
from barnabas.tiering.stores.opening import FolderStore
from tests.cli.tiering.conftest import TIERED
from tests.spark.source.readers import Query, Rows, batch_reader, rows_of
from tests.support.spark.jars import requires_connector
from tests.support.spark.reading import NOW, dots
from tests.support.spark.reading import read as read_with_spark
from tests.support.tiering.stores import BUCKET, SECRET, moto_server
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(600)  # a JVM on a loaded machine

TIMEOUT = 60
RECORDS = 4000
TIERS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "50",
    "log.retention.check.interval.ms": "100",
    "barnabas.remote.delete.delay.ms": "0",
}


@dataclass(frozen=True)
class Tiers:
    broker: EmbeddedBroker
    bucket: Path

    @property
    def url(self) -> str:
        return f"file://{self.bucket}"

    def topic(self, partitions: int = 1) -> str:
        topic = self.broker.create_topic(partitions=partitions, configs=TIERED)
        self.fill(topic, partitions)
        return topic

    def fill(self, topic: str, partitions: int = 1) -> None:
        """Add `RECORDS` to each partition; wait until all sealed segments are in the store."""
        producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers, "linger.ms": 5})
        for number in range(RECORDS):
            for partition in range(partitions):
                headers: list[tuple[str, str | bytes | None]] = [("n", b"%d" % number)]
                value = json.dumps({"number": number, "text": "x" * 1000}).encode()
                producer.produce(topic, value, partition=partition, timestamp=NOW + number, headers=headers)
            producer.poll(0)
        assert producer.flush(TIMEOUT) == 0
        for partition in range(partitions):
            until(lambda partition=partition: self.copied(topic, partition), "all sealed segments are copied")  # type: ignore[misc]

    def copied(self, topic: str, partition: int = 0) -> bool:
        return self.local_start(topic, partition) == self.active(topic, partition)

    def active(self, topic: str, partition: int) -> int:
        folder = self.broker.data_dir / f"{topic}-{partition}"
        return max(int(path.stem) for path in folder.glob("*.log"))

    def local_start(self, topic: str, partition: int) -> int:
        folder = self.broker.data_dir / f"{topic}-{partition}"
        return min(int(path.stem) for path in folder.glob("*.log"))

    def segments(self, topic: str) -> list[Path]:
        return sorted(self.bucket.glob(f"*/topics/{topic}.*/0/*.segment"))

    def options(self, topic: str, **more: str) -> dict[str, str]:
        return {"remote": self.url, "subscribe": topic, **dots(more)}


@pytest.fixture(scope="module")
def tiers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiers]:
    folder = tmp_path_factory.mktemp("tiers")
    (folder / "bucket").mkdir()
    settings = {**TIERS, "barnabas.remote.storage.url": f"file://{folder}/bucket"}
    with EmbeddedBroker(settings, data_dir=folder / "data") as running:
        yield Tiers(running, folder / "bucket")


@pytest.fixture(scope="module")
def topic(tiers: Tiers) -> str:
    return tiers.topic(partitions=2)


def reader_of(options: dict[str, str]) -> BatchReader:
    reader = make_reader(options, schema_of(options))
    assert isinstance(reader, BatchReader)
    return reader


def stream_of(options: dict[str, str]) -> StreamReader:
    reader = make_stream_reader(options, schema_of(options))
    assert isinstance(reader, StreamReader)
    return reader


def read(options: dict[str, str]) -> Rows:
    reader = reader_of(options)
    return rows_of(reader, reader.partitions())


def everything(tiers: Tiers, topic: str, **options: str) -> Rows:
    """From the broker: the store has everything below the active segments."""
    reader = batch_reader(tiers.broker.bootstrap_servers, subscribe=topic, **options)
    return rows_of(reader, reader.partitions())


def below_active(tiers: Tiers, topic: str, rows: Rows) -> Rows:
    return [row for row in rows if row[1] < tiers.active(topic, row[0])]


def test_rows_equal_those_of_a_broker(tiers: Tiers, topic: str) -> None:
    expected = below_active(tiers, topic, everything(tiers, topic))
    assert len(expected) > RECORDS
    assert read(tiers.options(topic)) == expected
    many = reader_of(tiers.options(topic, minPartitions="7"))
    tasks = [pickle.loads(pickle.dumps(task)) for task in many.partitions()]
    # Spark's rule, applied to the store: with equal partitions, each half of seven is rounded up.
    sizes = Counter(row[0] for row in expected)
    assert len(tasks) == sum(round(7 * size / len(expected)) for size in sizes.values())
    assert rows_of(many, tasks) == expected


def test_patterns_and_assigned_partitions_are_found_in_the_store(tiers: Tiers, topic: str) -> None:
    expected = read(tiers.options(topic))
    assert read({"remote": tiers.url, "subscribePattern": f"^{topic}$"}) == expected
    one = read({"remote": tiers.url, "assign": json.dumps({topic: [1]})})
    assert one == [row for row in expected if row[0] == 1]
    with pytest.raises(SourceError, match=f"unknown partitions {topic}-9: see the option 'assign'"):
        read({"remote": tiers.url, "assign": json.dumps({topic: [9]})})
    with pytest.raises(SourceError, match=rf"Topic nothing is not in the object store. Topics: .*{topic}"):
        read(tiers.options("nothing"))


def test_offsets_and_times_limit_the_range_read(tiers: Tiers, topic: str) -> None:
    all_rows = read(tiers.options(topic))
    starting, ending = {topic: {"0": 1500, "1": -2}}, {topic: {"0": 1600, "1": 10}}
    options = tiers.options(topic, startingOffsets=json.dumps(starting), endingOffsets=json.dumps(ending))
    expected = [
        row for row in all_rows if (row[0] == 0 and 1500 <= row[1] < 1600) or (row[0] == 1 and row[1] < 10)
    ]
    assert read(options) == expected
    times = tiers.options(topic, startingTimestamp=str(NOW + 700), endingTimestamp=str(NOW + 1700))
    assert read(times) == [row for row in all_rows if 700 <= row[1] < 1700]
    assert everything(
        tiers, topic, startingTimestamp=str(NOW + 700), endingTimestamp=str(NOW + 1700)
    ) == read(times)
    late = tiers.options(topic, startingTimestamp=str(NOW + 10 * RECORDS))
    with pytest.raises(SourceError, match="is as new as the timestamp"):
        read(late)
    assert read({**late, "startingOffsetsByTimestampStrategy": "latest"}) == []


def test_columns_headers_and_formats_are_those_of_the_other_source(tiers: Tiers, topic: str) -> None:
    chosen = {
        "columns": "offset,headers",
        "includeHeaders": "true",
        "endingOffsets": f'{{"{topic}":{{"0":3,"1":0}}}}',
    }
    reader = reader_of(tiers.options(topic, **chosen))
    (task,) = reader.partitions()
    (batch,) = reader.read(task)
    assert batch.to_pylist()[2] == {"offset": 2, "headers": [{"key": "n", "value": b"2"}]}
    del chosen["columns"], chosen["includeHeaders"]
    typed = tiers.options(topic, value_format="json", value_schema="number INT", **chosen)
    reader = reader_of(typed)
    (task,) = reader.partitions()
    assert [row["number"] for batch in reader.read(task) for row in batch.to_pylist()] == [0, 1, 2]


def test_committed_reads_leave_aborted_transactions_out(tiers: Tiers) -> None:
    topic = tiers.broker.create_topic(configs=TIERED)
    producer = Producer({"bootstrap.servers": tiers.broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(TIMEOUT)
    for number in range(45):
        producer.begin_transaction()
        for _ in range(100):
            producer.produce(topic, b"%d" % number + bytes(1000))
        assert producer.flush(TIMEOUT) == 0
        (producer.abort_transaction if number % 3 else producer.commit_transaction)(TIMEOUT)
    until(lambda: tiers.copied(topic) and len(tiers.segments(topic)) >= 4, "sealed segments are copied")
    committed = below_active(tiers, topic, everything(tiers, topic, kafka_isolation_level="read_committed"))
    found = read(tiers.options(topic, kafka_isolation_level="read_committed"))
    assert found == committed
    assert len(read(tiers.options(topic))) > 2 * len(found) > 0


def test_records_that_were_deleted_are_not_read(tiers: Tiers) -> None:
    topic = tiers.topic()
    first = TopicPartition(topic, 0, 1234)
    admin = AdminClient({"bootstrap.servers": tiers.broker.bootstrap_servers})
    admin.delete_records([first])[first].result(TIMEOUT)
    lossy = tiers.options(topic, failOnDataLoss="false")  # a read may plan segments that are then deleted
    until(lambda: read(lossy)[0][1] == 1234, "the manifest has the new log start")
    requested = tiers.options(topic, startingOffsets=json.dumps({topic: {"0": 5}}))
    with pytest.raises(DataLossError, match=f"offset 5 of {topic}-0 is no longer in the object store"):
        read(requested)
    assert read({**requested, "failOnDataLoss": "false"})[0][1] == 1234


def test_end_that_is_not_in_the_store_is_reported(tiers: Tiers, topic: str) -> None:
    requested = tiers.options(topic, endingOffsets=json.dumps({topic: {"0": 10 * RECORDS, "1": 5}}))
    with pytest.raises(
        DataLossError, match=rf"{topic}-0 ends at \d+ in the object store, and 40000 was to be"
    ):
        read(requested)


def test_a_snapshot_is_read_after_its_topic_was_deleted(tiers: Tiers) -> None:
    topic = tiers.topic()
    expected = read(tiers.options(topic))
    (manifest,) = tiers.bucket.glob(f"*/topics/{topic}.*/0/manifest")
    folder = parse_partition_prefix(str(manifest.parent.relative_to(tiers.bucket)))
    assert folder is not None

    async def snapshot() -> None:
        store = FolderStore(str(tiers.bucket))
        await create_snapshot(store, folder.cluster_id, "friday", [folder], NOW)
        await store.close()

    asyncio.run(snapshot())
    delete(tiers, topic)
    until(lambda: b'"deleted"' in manifest.read_bytes(), "the topic is deleted in the store")
    with pytest.raises(SourceError, match=f"unknown partitions {topic}|is not in the object store"):
        read({"remote": tiers.url, "assign": json.dumps({topic: [0]})})
    assert read(tiers.options(topic, snapshot="friday")) == expected
    with pytest.raises(SourceError, match="snapshot monday does not exist"):
        read(tiers.options(topic, snapshot="monday"))
    with pytest.raises(OptionError, match="a snapshot never grows"):
        stream_of(tiers.options(topic, snapshot="friday"))


def delete(tiers: Tiers, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": tiers.broker.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(TIMEOUT)


def test_a_stream_reads_segments_as_they_come(tiers: Tiers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.spark.source.remote_topics.POLL_SECONDS", 0.0)
    topic = tiers.topic()
    query = Query(stream_of(tiers.options(topic, startingOffsets="earliest")))
    first = query.next_batch()
    assert first == read(tiers.options(topic))
    assert query.next_batch() == []
    tiers.fill(topic)
    second = query.next_batch()
    assert second
    assert first + second == read(tiers.options(topic))


def test_a_damaged_object_is_named(tiers: Tiers) -> None:
    topic = tiers.topic()
    segment = tiers.segments(topic)[1]
    data = bytearray(segment.read_bytes())
    data[1000] ^= 1
    segment.write_bytes(data)
    with pytest.raises(
        SourceError, match=f"{topic}.*{segment.name}: the chunk at position 0 has a wrong checksum"
    ):
        read(tiers.options(topic))
    segment.unlink()
    with pytest.raises(DataLossError, match=rf"offsets \d+ to \d+ of {topic}-0 are lost: .*{segment.name}"):
        read(tiers.options(topic))
    left = read(tiers.options(topic, failOnDataLoss="false"))
    assert 0 < len(left) < tiers.active(topic, 0)


def test_several_clusters_in_one_bucket_are_listed(tiers: Tiers, topic: str, tmp_path: Path) -> None:
    (ours,) = [path.parent for path in tiers.bucket.glob("*/topics")]
    shutil.copytree(ours / "topics", tmp_path / ours.name / "topics")
    (tmp_path / "another" / "topics" / "x").mkdir(parents=True)
    (tmp_path / "pictures").mkdir()
    options = {"remote": f"file://{tmp_path}", "subscribe": topic}
    with pytest.raises(SourceError, match=f"several clusters: .*{ours.name}.*. Choose one"):
        read(options)
    with pytest.raises(SourceError, match="No data of cluster else"):
        read({**options, "clusterId": "else"})
    assert read({**options, "clusterId": ours.name}) == read(tiers.options(topic))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"kafka.bootstrap.servers": "h:1"}, "option 'kafka.bootstrap.servers' is for brokers"),
        ({"commitProgress": "true"}, "'commitProgress' is for brokers"),
        ({"fetchOffset.numRetries": "3"}, "'fetchOffset.numRetries' is for brokers"),
        ({"remote": "ftp://x"}, "option 'remote' has an unknown scheme"),
        ({"remote": "s3://user:pw@bucket"}, "option 'remote' must not contain credentials"),
        ({"remote": "file:///no/such/folder"}, "the folder /no/such/folder does not exist"),
        (
            {"remote": "s3://bucket", "remote.no_such_option": "x"},
            "invalid option 'remote.\\*' for s3",
        ),
        ({"remote": "s3://bucket", "remote.region": "${env:HOME}"}, "option 'remote.region' refers to"),
    ],
)
def test_impossible_values_are_rejected_with_a_message(
    more: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BARNABAS_REFERENCES", raising=False)
    with pytest.raises(OptionError, match=message):
        SourceSettings.parse({"remote": f"file://{tmp_path}", "subscribe": "a", **more}, streaming=False)


@pytest.mark.parametrize("name", ["clusterId", "snapshot", "remote.region"])
def test_options_of_a_store_need_one(name: str) -> None:
    settings = {"kafka.bootstrap.servers": "h:1", "subscribe": "a", name: "x"}
    with pytest.raises(OptionError, match="the option 'remote' must name it"):
        SourceSettings.parse(settings, streaming=False)


def test_credentials_reach_tasks_and_are_never_shown() -> None:
    settings = {
        "remote": "s3://bucket",
        "subscribe": "a",
        "remote.access_key_id": "me",
        "remote.secret_access_key": "hush",
    }
    parsed = SourceSettings.parse(settings, streaming=False)
    arrived = pickle.loads(pickle.dumps(parsed))
    assert arrived.remote == parsed.remote
    assert "hush" not in repr(parsed)


@requires_connector
def test_sparks_own_connector_reads_both_tiers_of_a_topic(
    spark: SparkSession, tiers: Tiers, topic: str
) -> None:
    """Through the broker, which hides the tiers."""
    address = tiers.broker.bootstrap_servers
    found = read_with_spark(spark, address, topic, source="kafka").selectExpr(
        "count(*)", "count(DISTINCT offset)"
    )
    assert found.collect()[0][:] == (2 * RECORDS, RECORDS)


def test_spark_reads_a_bucket(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """moto's S3, with credentials that do not appear in plans."""
    with moto_server() as options:
        rsm = {f"rsm.config.{name}": value for name, value in options.items()}
        settings = {**TIERS, **rsm, "barnabas.remote.storage.url": f"s3://{BUCKET}/history"}
        with EmbeddedBroker(settings, data_dir=tmp_path / "data") as broker:
            tiers = Tiers(broker, tmp_path)
            topic = tiers.topic()
            expected = tiers.active(topic, 0)
        values: dict[str, Any] = {f"remote.{name}": value for name, value in options.items()}
        frame = spark.read.format("barnabas").option("remote", f"s3://{BUCKET}/history").options(**values)
        table = frame.option("subscribe", topic).load()
        assert table.count() == expected
        last = table.selectExpr("max(offset)").first()
        assert last is not None
        assert last[0] == expected - 1
        table.explain(extended=True)
        assert SECRET not in capsys.readouterr().out
        wrong = frame.option("remote", "s3://no-such-bucket").option("subscribe", topic).load()
        with pytest.raises(Exception, match="no-such-bucket") as caught:
            wrong.count()
        assert SECRET not in str(caught.value)


def test_a_stream_polls_the_store_at_intervals(
    tiers: Tiers, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[RemoteTopics] = []
    look = RemoteTopics._look
    monkeypatch.setattr(RemoteTopics, "_look", lambda self: looks.append(self) or look(self))  # type: ignore[func-returns-value]
    query = Query(stream_of(tiers.options(topic, startingOffsets="earliest")))
    assert query.next_batch()
    before = len(looks)
    monkeypatch.setattr("barnabas.spark.source.remote_topics.POLL_SECONDS", 600.0)
    for _ in range(50):
        assert query.next_batch() == []
    assert len(looks) == before
