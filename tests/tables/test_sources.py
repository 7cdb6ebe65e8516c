"""The same rows from brokers, from an object store, and from Spark's source; only with the required rights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

import barnabas
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.spark.source import make_reader, schema_of
from barnabas.spark.source.stream import BatchReader
from barnabas.tables.sql import query
from barnabas.tables.table import Table
from barnabas.testing import EmbeddedBroker
from tests.cli.tiering.conftest import TIERED
from tests.support.sasl import login, sasl_settings
from tests.support.waiting import until
from tests.tables.conftest import DEADLINE, NOW, SCHEMA, order

COLUMNS = ["id", "country", "amount", "tags", "_partition", "_offset", "_timestamp"]
TIERS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "50",
    "log.retention.check.interval.ms": "100",
}


def table_of(topic: str, **place: Any) -> Table:
    return barnabas.table(topic, schema=SCHEMA, **place)


def rows_of(found: Any) -> list[dict[str, Any]]:
    return sorted(found.to_pylist(), key=lambda row: (row["_partition"], row["_offset"]))


def test_rows_are_those_of_sparks_source(broker: EmbeddedBroker, orders: str) -> None:
    """Aborted transactions, codecs and bad values included: it is one reader."""
    options = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "kafka.isolation.level": "read_committed",
        "subscribe": orders,
        "value.format": "json",
        "value.schema": f"{SCHEMA}, _corrupt_record STRING",
        "columns": ",".join([*COLUMNS, "_corrupt_record"]),
    }
    reader = make_reader(options, schema_of(options))
    assert isinstance(reader, BatchReader)
    expected = [
        row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()
    ]
    ours = table_of(orders, bootstrap=broker.bootstrap_servers).to_arrow([*COLUMNS, "_corrupt_record"])
    assert rows_of(ours) == sorted(expected, key=lambda row: (row["_partition"], row["_offset"]))


def test_a_bucket_has_the_rows_below_the_active_segment(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    url = f"file://{tmp_path}/bucket"
    with EmbeddedBroker({**TIERS, "barnabas.remote.storage.url": url}, data_dir=tmp_path / "data") as broker:
        topic = broker.create_topic(configs=TIERED)
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5, "batch.size": 100_000}
        )
        for number in range(4000):
            padded = order(number)[:-1] + b', "note": "%s"}' % (b"x" * 1000)
            producer.produce(topic, padded, b"k", timestamp=NOW + number)
            producer.poll(0)
        assert producer.flush(DEADLINE) == 0
        folder = broker.data_dir / f"{topic}-0"
        until(lambda: len(list(folder.glob("*.log"))) == 1, "copy of the sealed segments")
        active = min(int(path.stem) for path in folder.glob("*.log"))
        sockets = rows_of(table_of(topic, bootstrap=broker.bootstrap_servers).to_arrow(COLUMNS))
        bucket = table_of(topic, remote=url)
        assert rows_of(bucket.to_arrow(COLUMNS)) == [row for row in sockets if row["_offset"] < active] != []
    answer = query(
        f'select count(*) as n, min(id) as first from "{topic}" where _offset >= 2000', lambda _: bucket
    )
    assert answer.rows.to_pylist() == [{"n": active - 2000, "first": 2000}]
    assert sum(wanted.size for wanted in answer.reads[topic][0].ranges) <= active - 2000 + 10


def test_without_read_on_the_topic_a_table_is_refused() -> None:
    settings = sasl_settings(
        **{
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
    )
    with EmbeddedBroker(settings=settings) as broker:
        plain, guarded = (
            next(
                f"127.0.0.1:{one.port}"
                for one in broker.broker.listeners
                if (one.name == "PLAINTEXT") is wanted
            )
            for wanted in (True, False)
        )
        topic = "secret"
        producer = Producer({"bootstrap.servers": plain, "allow.auto.create.topics": True})
        producer.produce(topic, json.dumps({"id": 1}))
        producer.flush(DEADLINE)
        assert table_of(topic, bootstrap=plain).to_arrow(["id"]).num_rows == 1
        config = login("PLAIN")
        with pytest.raises(KafkaError) as refused:
            table_of(topic, bootstrap=guarded, config=config).to_arrow(["id"])
        assert refused.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
