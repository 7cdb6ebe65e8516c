"""Values of confluent-kafka's serializers: columns of the newest schema, values read with the writer's schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import barnabas
from barnabas.client.schemas.client import Schema, SchemaClient, SchemaReference
from barnabas.spark.options import OptionError
from barnabas.spark.source import make_reader, schema_of
from barnabas.spark.source.stream import BatchReader
from barnabas.tables.table import Table
from barnabas.testing import EmbeddedBroker
from tests.support.cli import Cli
from tests.tables.conftest import DEADLINE

OLD = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "country", "type": "string"}],
}
NEW = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "country", "type": ["null", "string"], "default": None},
        {"name": "amount", "type": "double", "default": 0.5},
        {
            "name": "at",
            "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
            "default": None,
        },
    ],
}
JSON_SCHEMA = {
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "note": {"type": ["string", "null"]},
    },
}


@pytest.fixture(scope="module")
def registered() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(registry=True) as broker:
        yield broker


def send(broker: EmbeddedBroker, topic: str, *values: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(DEADLINE) == 0


def table_of(broker: EmbeddedBroker, topic: str) -> Table:
    return barnabas.table(topic, bootstrap=broker.bootstrap_servers, registry=broker.registry_url)


def avro(broker: EmbeddedBroker, topic: str, schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    with SchemaRegistryClient({"url": broker.registry_url}) as client:
        serializer = AvroSerializer(client, json.dumps(schema))
        found: bytes | None = serializer(value, SerializationContext(topic, MessageField.VALUE))
    assert found is not None
    return found


def test_avro_of_several_writers_is_resolved_to_the_newest(registered: EmbeddedBroker) -> None:
    topic = registered.create_topic(partitions=1)
    old = avro(registered, topic, OLD, {"id": 1, "country": "DE"})
    new = avro(registered, topic, NEW, {"id": 1 << 40, "country": None, "amount": 2.5, "at": None})
    send(registered, topic, old, new, None, b"no schema", b"\0\0\0\x27\x0fx", old[:-1])
    table = table_of(registered, topic)
    assert table.schema.field("id").type == pa.int64()
    assert table.schema.field("at").type == pa.timestamp("us", tz="UTC")
    rows = table.to_arrow(["id", "country", "amount", "_error"]).to_pylist()
    assert rows[:3] == [
        {"id": 1, "country": "DE", "amount": 0.5, "_error": None},
        {"id": 1 << 40, "country": None, "amount": 2.5, "_error": None},
        {"id": None, "country": None, "amount": None, "_error": None},
    ]
    assert "does not begin with a schema id" in rows[3]["_error"]
    assert "its schema 9999 is not in the registry" in rows[4]["_error"]
    assert "does not match the Avro schema" in rows[5]["_error"]
    assert table.last.bad_values == 3


def test_spark_source_looks_up_schemas(registered: EmbeddedBroker) -> None:
    topic = registered.create_topic(partitions=1)
    old = avro(registered, topic, OLD, {"id": 1, "country": "DE"})
    new = avro(registered, topic, NEW, {"id": 2, "country": None, "amount": 2.5, "at": None})
    send(registered, topic, old, new, b"bad")
    options = {
        "kafka.bootstrap.servers": registered.bootstrap_servers,
        "subscribe": topic,
        "value.format": "avro",
        "value.registry": registered.registry_url,
    }
    reader = make_reader(options, schema_of(options))
    assert isinstance(reader, BatchReader)
    rows = [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]
    assert [(row["id"], row["country"], row["amount"]) for row in rows] == [
        (1, "DE", 0.5),
        (2, None, 2.5),
        (None, None, None),
    ]
    with pytest.raises(OptionError, match="needs 'subscribe' with one topic"):
        schema_of({**options, "subscribe": "a,b"})
    with pytest.raises(OptionError, match="the schema of unknown is not known"):
        schema_of({**options, "subscribe": "unknown"})


NAMED = {
    "type": "record",
    "name": "Address",
    "namespace": "shop",
    "fields": [{"name": "city", "type": "string"}],
}


def test_schemas_may_refer_to_others(registered: EmbeddedBroker) -> None:
    topic = registered.create_topic(partitions=1)
    order = {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "home", "type": "shop.Address"},
            {"name": "work", "type": ["null", "shop.Address"]},
        ],
    }
    with SchemaClient(registered.registry_url) as client:
        client.register("address", Schema("AVRO", json.dumps(NAMED)))
        reference = SchemaReference("shop.Address", "address", 1)
        schema_id = client.register(f"{topic}-value", Schema("AVRO", json.dumps(order), (reference,)))
    value = b"\0" + schema_id.to_bytes(4, "big") + b"\x04ab" + b"\x02" + b"\x02c"
    send(registered, topic, value)
    rows = table_of(registered, topic).to_arrow().to_pylist()
    assert rows == [{"home": {"city": "ab"}, "work": {"city": "c"}, "_error": None}]


def test_a_default_of_another_type_stops_no_reader(registered: EmbeddedBroker) -> None:
    topic = registered.create_topic(partitions=1)
    odd = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "n", "type": ["null", "long"], "default": "null"}],
    }
    with SchemaClient(registered.registry_url) as client:
        schema_id = client.register(f"{topic}-value", Schema("AVRO", json.dumps(odd)))
    send(registered, topic, b"\0" + schema_id.to_bytes(4, "big") + b"\x02\x0a")
    assert table_of(registered, topic).to_arrow().to_pylist() == [{"n": 5, "_error": None}]
    cli = Cli(registered.bootstrap_servers)
    found = cli.ok(
        "consume", topic, "-s", "beginning", "-e", "--schema", "--registry", registered.registry_url
    )
    assert json.loads(found.out) == {"n": 5}


def test_json_schema_gives_the_columns(registered: EmbeddedBroker) -> None:
    topic = registered.create_topic(partitions=1)
    with SchemaRegistryClient({"url": registered.registry_url}) as client:
        serializer: Any = JSONSerializer(json.dumps(JSON_SCHEMA), client)
        good = serializer(
            {"id": 1, "tags": ["a"], "note": None}, SerializationContext(topic, MessageField.VALUE)
        )
    send(registered, topic, good, b'{"id": 2}')
    rows = table_of(registered, topic).to_arrow().to_pylist()
    assert rows[0] == {"id": 1, "tags": ["a"], "note": None, "_error": None}
    assert rows[1]["id"] is None
    assert rows[1]["_error"].startswith("not a JSON object")


def test_where_filters_decoded_values(registered: EmbeddedBroker) -> None:
    topic = registered.create_topic(partitions=1)
    values = [
        avro(registered, topic, NEW, {"id": number, "country": "DE", "amount": number / 2})
        for number in range(5)
    ]
    send(registered, topic, *values)
    cli = Cli(registered.bootstrap_servers)
    arguments = ("consume", topic, "-s", "beginning", "-e", "--schema", "--registry", registered.registry_url)
    found = cli.ok(*arguments, "--where", "record.value.amount >= 1.5")
    assert [json.loads(line)["id"] for line in found.out.splitlines()] == [3, 4]
