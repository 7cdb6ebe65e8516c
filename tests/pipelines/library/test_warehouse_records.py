"""Records kept by the template `warehouse`, byte for byte as read by another client."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.dataset
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

from barnabas.pipelines.definitions.settings import Compaction
from barnabas.pipelines.lake.writer import Compactor
from barnabas.spark.errors import PipelineError
from barnabas.spark.hadoop_files import HadoopFolder
from barnabas.testing import EmbeddedBroker
from tests.support.programs import PROJECT_ROOT
from tests.support.spark.iceberg import rows_of
from tests.support.spark.jars import requires_iceberg
from tests.support.spark.workbench import HOUR, START, TIMEOUT, Workbench

pytestmark = pytest.mark.timeout(300)

Headers = list[tuple[str, bytes | None]]


class Sent(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Headers


ODD = (
    Sent(None, None, []),
    Sent(b"", b"", [("", b"")]),
    Sent(b"deleted", None, [("reason", None)]),
    Sent(b"\xff\xfe", b"\x00\xc3\x28\xff", [("a", b"1"), ("a", b"\xfe"), ("a", None)]),
    Sent("schlüssel".encode(), "größe 漢字 🐟".encode(), [("ключ", "значение".encode())]),
    Sent(b"o1", b'{"order": 1, "amount": 2.5}', []),
    Sent(b"o2", b'{"order": "no number"}', []),
    Sent(b"o3", b"{}", []),
)


def send(servers: str, topic: str, time: int) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for number, (key, value, headers) in enumerate(ODD):
        producer.produce(topic, value, key, headers=[*headers], timestamp=time + number, partition=0)
    assert producer.flush(TIMEOUT) == 0


def as_consumed(servers: str, topic: str, count: int) -> list[dict[str, Any]]:
    """The records as rows, read by a client that knows nothing of Spark."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "tests"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(count, TIMEOUT)
    consumer.close()
    assert len(messages) == count
    return [
        {
            "key": message.key(),
            "value": message.value(),
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": message.timestamp()[1] * 1000,
            "timestampType": message.timestamp()[0] - TIMESTAMP_CREATE_TIME,
            "headers": [{"key": key, "value": value} for key, value in list(message.headers() or ())] or None,
        }
        for message in messages
    ]


def rows_in(folder: Path) -> list[dict[str, Any]]:
    """By offset, read without Spark; times as microseconds since 1970."""
    table = pyarrow.dataset.dataset(folder, format="parquet", partitioning="hive").to_table()
    table = table.drop_columns(["date", "hour"]).sort_by("offset")
    times = table["timestamp"].cast(pyarrow.timestamp("us", "UTC")).cast(pyarrow.int64()).to_pylist()
    return [row | {"timestamp": time} for row, time in zip(table.to_pylist(), times, strict=True)]


def loaded(
    spark: SparkSession, broker: EmbeddedBroker, folder: Path, settings: dict[str, str], runs: int = 1
) -> Workbench:
    """The odd records in a table; each run loads them twice, in two hours."""
    settings = {"warehouse.topics": broker.create_topic()} | settings
    bench = Workbench("warehouse", folder, broker.bootstrap_servers, settings)
    for _ in range(runs):
        for hour in range(2):
            send(broker.bootstrap_servers, settings["warehouse.topics"], START + hour * HOUR)
        bench.run(spark)
    return bench


@pytest.mark.parametrize("kind", ["parquet", pytest.param("iceberg", marks=requires_iceberg)])
def test_records_arrive_byte_for_byte_and_stay_so_when_files_are_merged(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, kind: str
) -> None:
    bench = loaded(spark, broker, tmp_path / "lake", {"warehouse.format": kind}, runs=2)
    topic, path = bench.settings["warehouse.topics"], tmp_path / "lake" / "warehouse"
    expected = as_consumed(broker.bootstrap_servers, topic, 4 * len(ODD))
    assert [(row["key"], row["value"]) for row in expected] == [sent[:2] for sent in ODD] * 4
    if kind == "iceberg":
        found = sorted(rows_of(spark, f"file://{path}"), key=lambda row: row["offset"])
        assert found == expected
        return
    assert rows_in(path) == expected
    folder = HadoopFolder(spark, f"file://{path}")
    assert Compactor(spark, folder, Compaction(files=2, after="1 hour")).run() == 1
    assert rows_in(path) == expected
    check_documented_queries(spark, path)


def check_documented_queries(spark: SparkSession, path: Path) -> None:
    """The queries of the page run on this table with the documented results."""
    page = (PROJECT_ROOT / "docs" / "pipelines" / "warehouse.md").read_text()
    texts, orders, latest = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    spark.read.parquet(str(path)).createOrReplaceTempView("events")
    assert {row["value"] for row in spark.sql(texts).collect()} >= {"größe 漢字 🐟", "", None}
    amounts = spark.sql(orders).collect()
    assert [(row["order"], row["amount"]) for row in amounts if row["order"] is not None] == [(1, 2.5)] * 4
    found = {bytes(row["key"]): row["value"] for row in spark.sql(latest).collect()}
    assert found == {sent.key: sent.value for sent in ODD if sent.key is not None and sent.value is not None}


def test_bytes_that_are_not_utf_8_stay_bytes_in_text(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    settings = {"warehouse.keys": "text", "warehouse.values": "text"}
    loaded(spark, broker, tmp_path / "lake", settings)
    rows = rows_in(tmp_path / "lake" / "warehouse")
    for name in ("key", "value"):
        expected = [as_text(getattr(sent, name)) for sent in ODD] * 2
        assert [(row[name], row[f"{name}_bytes"]) for row in rows] == expected


def as_text(settings: bytes | None) -> tuple[str | None, bytes | None]:
    try:
        return None if settings is None else settings.decode(), None
    except UnicodeDecodeError:
        return None, settings


def test_typed_values_have_fields_and_mismatches_stay_bytes(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    settings = {
        "warehouse.values": "json",
        "warehouse.value.schema": "order BIGINT, amount DOUBLE, topic STRING",
    }
    loaded(spark, broker, tmp_path / "lake", settings)
    rows = rows_in(tmp_path / "lake" / "warehouse")
    assert [row["key"] for row in rows] == [sent.key for sent in ODD] * 2
    fits = {
        b'{"order": 1, "amount": 2.5}': {"order": 1, "amount": 2.5, "topic": None},
        b"{}": {"order": None, "amount": None, "topic": None},
    }
    assert [(row["value"], row["value_bytes"]) for row in rows] == [
        (fits.get(sent.value or b"-"), None if sent.value in fits else sent.value) for sent in ODD * 2
    ]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"warehouse.values": "xml"}, "warehouse.values: xml is none of bytes, text, json, csv, avro"),
        ({"warehouse.values": "json"}, "warehouse.values: json wants warehouse.value.schema"),
    ],
)
def test_a_choice_that_cannot_be_is_refused_before_anything_is_written(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, settings: dict[str, str], sentence: str
) -> None:
    with pytest.raises(PipelineError, match=re.escape(sentence)):
        loaded(spark, broker, tmp_path / "lake", settings)
    assert not (tmp_path / "lake" / "warehouse").exists()
