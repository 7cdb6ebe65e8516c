"""A producer adds a field: a continuous run reads it from the registry without a restart."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from barnabas.pipelines.running.schema_watch import SchemaWatch
from barnabas.testing import EmbeddedBroker
from tests.pipelines.running.measures import MakeRunner
from tests.support.spark.reading import produce
from tests.support.spark.workbench import Read, read_topic
from tests.support.waiting import until

TIMEOUT = 200
pytestmark = pytest.mark.timeout(3 * TIMEOUT)
ORDERS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from barnabas.pipelines.connection import broker_options
spark = SparkSession.active()

@dp.table
def orders():
    stream = spark.readStream.format("barnabas").options(**broker_options(spark)).option("subscribe", "TOPIC")
    stream = stream.option("value.format", "avro").option("startingOffsets", "earliest")
    return stream.option("columns", "*,_corrupt_record,_error").load()
"""
SETTINGS = """
schema_refresh: 200ms
quality: [{dataset: orders, name: readable, condition: "_corrupt_record IS NULL", action: quarantine}]
dead_letters: {topic: letters}
topics: [{name: letters}]
"""


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(registry=True) as running:
        yield running


class Orders:
    """A producer whose schema changes."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self._broker = broker
        self.topic = broker.create_topic()

    def send(self, fields: dict[str, Any], *values: dict[str, Any], **more: str) -> None:
        described = [{"name": name, "type": kind, **_default(kind)} for name, kind in fields.items()]
        schema = json.dumps({"type": "record", "name": "Order", "fields": described})
        with SchemaRegistryClient({"url": self._broker.registry_url}) as client:
            if more:
                client.set_compatibility(f"{self.topic}-value", more["compatibility"])
            client.register_schema(f"{self.topic}-value", Schema(schema, "AVRO"))
            encode = AvroSerializer(client, schema)
            context = SerializationContext(self.topic, MessageField.VALUE)
            encoded = [encode(value, context) for value in values]
        if encoded:
            produce(self._broker.bootstrap_servers, self.topic, encoded)


def _default(kind: Any) -> dict[str, None]:
    return {"default": None} if isinstance(kind, list) else {}


def test_a_schema_registered_between_plan_and_watch_is_a_change(
    make: MakeRunner, broker: EmbeddedBroker
) -> None:
    orders = Orders(broker)
    orders.send({"id": "long"})
    runner = make(SETTINGS, ORDERS.replace("TOPIC", orders.topic), "", broker.bootstrap_servers)
    frames = [query.frame for query in runner.plan.streams]
    before = SchemaWatch(frames, "0s")

    orders.send({"id": "long", "note": ["null", "string"]})
    after = SchemaWatch(frames, "0s")

    subject = f"{orders.topic}-value"
    assert [watch.changed() for watch in (before, after)] == [[subject], [subject]]
    assert [watch.changed() for watch in (before, after)] == [[], []], "once"


@pytest.mark.extended
def test_a_running_stream_gains_a_field_and_incompatible_values_are_dead_letters_with_the_reason(
    make: MakeRunner, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    orders = Orders(broker)
    orders.send({"id": "long"}, {"id": 1})
    runner = make(SETTINGS, ORDERS.replace("TOPIC", orders.topic), "", broker.bootstrap_servers)
    failed: list[BaseException] = []
    running = threading.Thread(target=_guarded, args=(runner.run_continuously, failed))
    running.start()
    try:
        until(lambda: table(tmp_path) == {1: None}, lambda: (failed, table(tmp_path)), TIMEOUT)
        numbers = itertools.count(2)

        def has_note() -> bool:
            """Records from before the new plan have none."""
            orders.send({"id": "long", "note": ["null", "string"]}, {"id": next(numbers), "note": "new"})
            return "new" in table(tmp_path).values() or bool(failed)

        until(has_note, lambda: table(tmp_path), TIMEOUT, every=1.0)
        orders.send({"id": "string"}, {"id": "four"}, compatibility="NONE")
        until(lambda: letters(broker) or failed, "no dead letter", TIMEOUT)
        orders.send({"id": "long"}, {"id": 0})
        until(lambda: 0 in table(tmp_path), lambda: (failed, table(tmp_path)), TIMEOUT)
    finally:
        runner.stop()
        running.join(TIMEOUT)
    assert not failed
    [letter] = letters(broker)
    assert letter.headers["errors.reason"].startswith("readable: ")
    assert "string" in letter.headers["errors.reason"]


def _guarded(run: Any, failed: list[BaseException]) -> None:
    try:
        run()
    except BaseException as error:
        failed.append(error)


def table(folder: Path) -> dict[int, str | None]:
    found: dict[int, str | None] = {}
    for path in (folder / "storage/barnabas/tables/orders").glob("*.parquet"):
        for row in pyarrow.parquet.ParquetFile(path).read().to_pylist():
            assert row["id"] not in found
            found[row["id"]] = row.get("note")
    return found


def letters(broker: EmbeddedBroker) -> list[Read]:
    return read_topic(broker.bootstrap_servers, "letters")
