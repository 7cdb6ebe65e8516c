"""Topics with schema registry formats as sources and sinks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from barnabas.connect.compiling import ConnectorPlan
from barnabas.connect.endpoints import fields_of
from barnabas.pipelines.running.sessions import FlowSession
from barnabas.spark.errors import PipelineError
from barnabas.testing import EmbeddedBroker
from tests.connect.support import connector, consume, headers_of, produce, run_once

pytestmark = pytest.mark.timeout(300)

ORDERS = """
name: {name}
from: {{topic: {{topic: {source}, schema: "id BIGINT, amount DOUBLE"}}}}
to: {{topic: {{topic: {target}, key: [id], format: avro, key_format: avro, record: shop.Order}}}}
errors: {{topic: {name}.dead}}
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(registry=True) as running:
        yield running


def test_a_connector_writes_avro_and_its_dead_letters_as_they_were(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    servers, source, target = broker.bootstrap_servers, broker.create_topic(), broker.create_topic()
    text = ORDERS.format(name=tmp_path.name, source=source, target=target)
    produce(servers, source, [(1, {"id": 1, "amount": 1.5}), (2, b"no json"), (3, None)])
    run_once(connector(tmp_path, text, servers), spark)

    first, deleted = consume(servers, target)
    with SchemaRegistryClient({"url": broker.registry_url}) as client:
        read = AvroDeserializer(client)
        value, key = (SerializationContext(target, field) for field in (MessageField.VALUE, MessageField.KEY))
        assert read(first.value(), value) == {"id": 1, "amount": 1.5}
        assert read(first.key(), key) == {"id": 1}
        assert client.get_subjects() == [f"{target}-key", f"{target}-value"]
    assert deleted.value() is None
    [letter] = consume(servers, f"{tmp_path.name}.dead")
    assert (letter.key(), letter.value()) == (b"2", b"no json")
    assert headers_of(letter)["errors.topic"] == source


def test_a_schema_that_the_registry_refuses_stops_a_connector_before_it_runs(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    servers, source, target = broker.bootstrap_servers, broker.create_topic(), broker.create_topic()
    text = ORDERS.format(name=tmp_path.name, source=source, target=target)
    run_once(connector(tmp_path / "one", text, servers), spark)
    changed = connector(tmp_path / "two", text.replace("amount DOUBLE", "amount STRING"), servers)
    with pytest.raises(PipelineError, match=rf"not accepted for subject {target}-value: .*Incompatible"):
        run_once(changed, spark)


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        ("json", '{"type": "object", "properties": {"id": {"type": "integer"}, "note": {"type": "string"}}}'),
        ("protobuf", 'syntax = "proto3"; message Order { int64 id = 1; string note = 2; }'),
    ],
)
def test_a_source_has_the_fields_of_the_newest_schema(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, kind: str, schema: str
) -> None:
    topic = broker.create_topic()
    with SchemaRegistryClient({"url": broker.registry_url}) as client:
        client.register_schema(f"{topic}-value", Schema(schema, kind.upper()))
    source = f"{{topic: {topic}, format: {kind}, registry: true}}"
    text = f"name: {tmp_path.name}\nfrom: {{topic: {source}}}\nto: {{parquet: {{path: table}}}}\n"
    declared = connector(tmp_path, text, broker.bootstrap_servers)
    [query] = ConnectorPlan(declared, FlowSession.beside(spark)).plan().queries
    assert fields_of(query.frame.columns) == ["id", "note"]
