"""Tables equal a poll loop for any topic content and source."""

from __future__ import annotations

import asyncio
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import Producer

import barnabas
from barnabas.tables.errors import DamagedFileError, TableError
from barnabas.tables.table import Table
from barnabas.testing import EmbeddedBroker
from tests.support.waiting import until
from tests.tables.conftest import DEADLINE, NOW, SCHEMA, order, poll_all

RECORD = ["_partition", "_offset", "_timestamp", "_key", "_headers"]


def sorted_rows(found: pa.Table, prefix: str = "_") -> list[dict[str, Any]]:
    order_by = [(f"{prefix}partition", "ascending"), (f"{prefix}offset", "ascending")]
    rows: list[dict[str, Any]] = found.sort_by(order_by).to_pylist()
    return rows


def quiet(topic: str, **options: Any) -> Table:
    return barnabas.table(topic, notify=lambda text: None, **options)


@pytest.fixture
def table(broker: EmbeddedBroker, orders: str) -> Table:
    return quiet(orders, bootstrap=broker.bootstrap_servers, schema=SCHEMA)


def expected_fields(value: bytes | None) -> dict[str, Any]:
    """Fields of a value that is one object of the schema; others and tombstones have none."""
    try:
        found = json.loads(value or b"null")
    except ValueError:
        found = None
    fits = isinstance(found, dict) and isinstance(found.get("id"), int)
    return found if fits else dict.fromkeys(("id", "country", "amount", "tags"))


def test_rows_are_those_of_a_poll_loop(broker: EmbeddedBroker, orders: str, table: Table) -> None:
    messages = poll_all(broker, orders, 2)
    rows = sorted_rows(table.to_arrow([*table.columns, *RECORD]))
    assert [(row["_partition"], row["_offset"], row["_key"]) for row in rows] == [
        (message.partition(), message.offset(), message.key()) for message in messages
    ]
    for row, message in zip(rows, messages, strict=True):
        value = message.value()
        assert value is None or isinstance(value, bytes)
        assert row["_timestamp"] == datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC)
        assert [(header["key"], header["value"]) for header in row["_headers"]] == message.headers()
        if row["country"] != "DE" or row["id"] is not None:  # one bad value keeps the fields that fit
            assert {name: row[name] for name in expected_fields(value)} == expected_fields(value)
    assert table.last.bad_values == sum(row["_error"] is not None for row in rows) > 0


def test_value_that_does_not_fit_is_null_with_a_reason(table: Table) -> None:
    found = table.to_arrow(["id", "country", "_error", "_corrupt_record"])
    bad = found.filter(pc.is_valid(found["_error"])).to_pylist()
    by_value = {row["_corrupt_record"]: row for row in bad}
    assert by_value['{"id": "x", "country": "DE"}']["_error"].startswith("id: ")
    assert by_value['{"id": "x", "country": "DE"}']["country"] == "DE"
    assert by_value["no json"]["_error"].startswith("not a JSON object")
    assert by_value["no json"]["id"] is None


def test_missing_schema_is_inferred_and_reported(broker: EmbeddedBroker, orders: str) -> None:
    output: list[str] = []
    found = barnabas.table(orders, bootstrap=broker.bootstrap_servers, notify=output.append)
    assert found.schema.field("id").type == pa.int64()
    assert found.schema.field("tags").type.value_type == pa.string()
    assert len(output) == 1
    assert output[0].startswith(
        "orders: id BIGINT, country STRING, amount DOUBLE, tags ARRAY<STRING> (inferred from "
    )


def test_values_that_are_no_json_have_the_columns_of_records(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic(partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, b"plain", b"k")
    producer.flush(DEADLINE)
    found = quiet(topic, bootstrap=broker.bootstrap_servers)
    assert found.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert found.to_arrow(["key", "value", "offset"]).to_pylist() == [
        {"key": b"k", "value": b"plain", "offset": 0}
    ]


def test_a_read_is_a_snapshot(broker: EmbeddedBroker) -> None:
    """Concurrent records and open transactions are not visible."""
    topic = broker.create_topic(partitions=1)
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic}
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, order(1))
    producer.flush(DEADLINE)
    transactional = Producer(settings)
    transactional.init_transactions(DEADLINE)
    transactional.begin_transaction()
    transactional.produce(topic, order(2))
    transactional.flush(DEADLINE)
    producer.produce(topic, order(3))
    producer.flush(DEADLINE)
    found = quiet(topic, bootstrap=broker.bootstrap_servers, schema=SCHEMA)
    folder = quiet(topic, data=str(broker.data_dir), schema=SCHEMA)
    assert found.to_arrow(["id"]).to_pylist() == [{"id": 1}]
    until(lambda: folder.to_arrow(["id"]).num_rows == 1, "checkpoint")
    transactional.commit_transaction(DEADLINE)
    assert found.to_arrow(["id"])["id"].to_pylist() == [1, 2, 3]
    until(lambda: folder.to_arrow(["id"])["id"].to_pylist() == [1, 2, 3], "checkpoint")


def test_a_folder_has_the_rows_of_the_sockets(broker: EmbeddedBroker, orders: str, table: Table) -> None:
    folder = quiet(orders, data=str(broker.data_dir), schema=SCHEMA)
    columns = [*table.columns, *RECORD]
    expected = sorted_rows(table.to_arrow(columns))
    until(lambda: folder.to_arrow(["_offset"]).num_rows == len(expected), "checkpoint")
    assert sorted_rows(folder.to_arrow(columns)) == expected
    timestamp = datetime.fromtimestamp((NOW + 100_000) / 1000, UTC)
    since = sorted_rows(table.since(timestamp).to_arrow(columns))
    assert since == [row for row in expected if row["_timestamp"] >= timestamp]
    assert sorted_rows(folder.since(timestamp).to_arrow(columns)) == since


def test_compacted_topic_has_the_remaining_records(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic(
        configs={"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"}
    )
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "batch.size": 2000})
    for number in range(2000):
        padded = order(number)[:-1] + b', "note": "%s"}' % (b"x" * 1500)
        producer.produce(topic, padded, b"key-%d" % (number % 50))
    producer.produce(topic, None, b"key-0")
    producer.flush(DEADLINE)
    until(lambda: len(poll_all(broker, topic, 1)) < 1500, "compaction")
    found = quiet(topic, bootstrap=broker.bootstrap_servers, schema=SCHEMA)
    folder = quiet(topic, data=str(broker.data_dir), schema=SCHEMA)
    latest = {row["_key"]: row["id"] for row in found.latest(["id", "_key"]).to_pylist()}
    assert latest == {b"key-%d" % key: 1950 + key for key in range(1, 50)}
    until(lambda: folder.latest(["id"]).num_rows == 49, "checkpoint")


def test_latest_is_the_newest_of_each_key_without_tombstones(
    broker: EmbeddedBroker, orders: str, table: Table
) -> None:
    newest: dict[bytes, Any] = {}
    for message in sorted(poll_all(broker, orders, 2), key=lambda message: message.timestamp()[1]):
        key = message.key()
        if isinstance(key, bytes):
            newest[key] = message
    expected = {key: message.offset() for key, message in newest.items() if message.value() is not None}
    found = table.latest(["_key", "_offset"], memory="100MB").to_pylist()
    assert {row["_key"]: row["_offset"] for row in found} == expected


def test_a_filter_is_evaluated_before_values_are_taken_apart(table: Table) -> None:
    everything = table.to_arrow(["id", "country", "_offset", "_partition"]).to_pylist()
    wanted = "record.value.country == 'DE' && record.partition == 1 && record.value.id > 50"
    found = table.where(wanted).to_arrow(["id", "country", "_offset", "_partition"])
    expected = [
        row
        for row in everything
        if row["country"] == "DE" and row["_partition"] == 1 and (row["id"] or 0) > 50
    ]
    assert found.to_pylist() == expected != []


def test_follow_returns_new_rows_after_a_restart(broker: EmbeddedBroker, tmp_path: Path) -> None:
    topic = broker.create_topic(partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    def send(number: int) -> None:
        producer.produce(topic, order(number))
        producer.flush(DEADLINE)

    send(1)
    checkpoint = str(tmp_path / "checkpoint.json")
    table = quiet(topic, bootstrap=broker.bootstrap_servers, schema=SCHEMA)
    news = table.follow(checkpoint, columns=["id"])
    assert next(news)["id"].to_pylist() == [1]
    send(2)
    assert next(news)["id"].to_pylist() == [2]
    news.close()  # type: ignore[attr-defined]
    send(3)
    again = [rows["id"].to_pylist() for rows in table.follow(checkpoint, columns=["id"], once=True)]
    assert again == [[2, 3]]  # the table with 2 was not finished with
    assert list(table.follow(checkpoint, columns=["id"], once=True)) == []
    with pytest.raises(TableError, match="is the checkpoint of"):
        list(quiet("orders", bootstrap=broker.bootstrap_servers, schema=SCHEMA).follow(checkpoint))


def test_pandas_and_polars_have_the_same_rows(table: Table) -> None:
    expected = table.to_arrow()
    assert table.to_polars().to_arrow().cast(expected.schema).equals(expected)
    assert len(table.to_pandas()) == expected.num_rows


def test_a_notebook_whose_loop_is_running_may_read(table: Table) -> None:
    async def cell() -> int:
        return int(table.to_arrow(["id"]).num_rows)

    assert asyncio.run(cell()) == table.to_arrow(["id"]).num_rows == table.last.records


def test_a_wrong_crc_names_the_file(broker: EmbeddedBroker, orders: str, tmp_path: Path) -> None:
    copy = tmp_path / "data"
    until(
        lambda: quiet(orders, data=str(broker.data_dir), schema=SCHEMA).to_arrow(["id"]).num_rows > 0,
        "checkpoint",
    )
    (copy / "orders-0").mkdir(parents=True)
    for path in (broker.data_dir / "orders-0").glob("*.log"):
        shutil.copy(path, copy / "orders-0")
    shutil.copy(broker.data_dir / "replication-offset-checkpoint", copy)
    (segment,) = (copy / "orders-0").glob("*.log")
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)
    damaged = quiet("orders", data=str(copy), schema=SCHEMA)
    with pytest.raises(DamagedFileError, match=r"00000\.log, byte 0: .*CRC mismatch"):
        damaged.to_arrow()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"data": "/nowhere"}, "/nowhere is not a folder"),
        ({"data": "DATA", "bootstrap": "x:1"}, "exactly one of bootstrap, data and remote"),
        ({"bootstrap": "BROKER", "schema": "id NUMBER"}, "unknown type 'number'"),
        ({"bootstrap": "BROKER", "format": "xml"}, "unknown format 'xml'; formats: json"),
        ({"bootstrap": "BROKER", "format": "csv"}, "requires schema"),
        ({"bootstrap": "BROKER", "format": "avro", "schema": "{"}, "not valid JSON"),
    ],
)
def test_bad_input_is_rejected_with_a_remedy(
    broker: EmbeddedBroker, orders: str, options: dict[str, str], says: str
) -> None:
    known = {"BROKER": broker.bootstrap_servers, "DATA": str(broker.data_dir)}
    settings = {name: known.get(value, value) for name, value in options.items()}
    with pytest.raises(TableError, match=says):
        quiet(orders, **settings).to_arrow()


def test_a_topic_that_a_folder_does_not_have_is_named(broker: EmbeddedBroker, orders: str) -> None:
    with pytest.raises(TableError, match=r"unknown topic nothing in .*; topics: .*orders"):
        quiet("nothing", data=str(broker.data_dir), schema=SCHEMA).to_arrow()
    with pytest.raises(TableError, match="orders has no column 'x'"):
        quiet("orders", data=str(broker.data_dir), schema=SCHEMA).to_arrow(["x"])
