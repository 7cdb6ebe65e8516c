"""Values of confluent-kafka's serializers are displayed decoded and matched by CEL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import timestamp_pb2

from barnabas.client.schemas import RegistryAccount
from barnabas.services.console.scanning.model import Decode, RecordMask, Search
from barnabas.services.console.scanning.scanner import Scanner
from barnabas.testing import EmbeddedBroker
from tests.services.console.scanning.conftest import Searcher

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "country", "type": "string"}],
    }
)
JSON_SCHEMA = json.dumps(
    {
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "country": {"type": "string"}},
    }
)


@pytest.fixture(scope="module")
def registry_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(registry=True) as broker:
        yield broker


@pytest.fixture(scope="module")
def topic(registry_broker: EmbeddedBroker) -> str:
    """Avro, JSON Schema, Protobuf, plain JSON, and an unknown schema."""
    name = registry_broker.create_topic("registered", partitions=1)
    order = {"id": 7, "country": "DE"}
    producer = Producer({"bootstrap.servers": registry_broker.bootstrap_servers})
    with SchemaRegistryClient({"url": registry_broker.registry_url}) as client:
        for serializer, value, subject in _serializers(client, order):
            data = serializer(value, SerializationContext(f"{name}-{subject}", MessageField.VALUE))
            producer.produce(name, data)
    producer.produce(name, json.dumps(order).encode())
    producer.produce(name, b"\0\0\0\x7f\xff!")
    assert producer.flush(30) == 0
    return name


def _serializers(client: SchemaRegistryClient, order: dict[str, Any]) -> list[tuple[Any, Any, str]]:
    timestamp = timestamp_pb2.Timestamp(seconds=4711)
    return [
        (AvroSerializer(client, AVRO), order, "avro"),
        (JSONSerializer(JSON_SCHEMA, client), order, "json"),
        (
            ProtobufSerializer(timestamp_pb2.Timestamp, client, {"use.deprecated.format": False}),
            timestamp,
            "proto",
        ),
    ]


@pytest.fixture
def scanner(searcher: Searcher, registry_broker: EmbeddedBroker) -> Scanner:
    return Scanner(searcher.pool, RegistryAccount.at(registry_broker.registry_url))


def test_values_are_decoded_by_their_schemas(
    searcher: Searcher, registry_broker: EmbeddedBroker, topic: str, scanner: Scanner
) -> None:
    search = Search(topic=topic, newest_first=False)
    hits, _ = searcher.search(registry_broker.bootstrap_servers, search, scanner)
    avro, json_schema, protobuf, plain, unknown = [hit.value for hit in hits]
    assert [avro.format, json_schema.format, protobuf.format, plain.format] == [
        "avro",
        "json",
        "protobuf",
        "json",
    ]
    assert json.loads(avro.text) == json.loads(json_schema.text) == {"id": 7, "country": "DE"}
    assert "1970-01-01T01:18:31Z" in protobuf.text
    assert avro.schema > 0
    assert (unknown.format, unknown.text) == ("hex", "00 00 00 7f ff 21")
    assert "schema" in unknown.note.lower()


def test_one_record_is_shown_with_its_schema(
    searcher: Searcher, registry_broker: EmbeddedBroker, topic: str, scanner: Scanner
) -> None:
    search = Search(topic=topic, newest_first=False, limit=1, with_hex=True)
    (hit,), _ = searcher.search(registry_broker.bootstrap_servers, search, scanner)
    assert json.loads(hit.value.schema_text)["name"] == "Order"
    assert hit.value.hex.startswith("00")


def test_cel_reads_values_decoded_with_schemas(
    searcher: Searcher, registry_broker: EmbeddedBroker, topic: str, scanner: Scanner
) -> None:
    search = Search(topic=topic, where="record.value.id == 7 && record.value.country == 'DE'")
    hits, _ = searcher.search(registry_broker.bootstrap_servers, search, scanner)
    assert sorted(hit.offset for hit in hits) == [0, 1, 3]


def test_fields_of_schemas_are_masked_too(
    searcher: Searcher, registry_broker: EmbeddedBroker, topic: str, scanner: Scanner
) -> None:
    masks = (RecordMask(("country",)),)
    search = Search(topic=topic, masks=masks, newest_first=False)
    hits, _ = searcher.search(registry_broker.bootstrap_servers, search, scanner)
    assert "DE" not in repr(hits[0].value)
    search = Search(topic=topic, masks=masks, where="record.value.country == 'DE'")
    assert searcher.search(registry_broker.bootstrap_servers, search, scanner)[0] == []


def test_without_a_registry_such_values_are_hex_with_a_reason(
    searcher: Searcher, registry_broker: EmbeddedBroker, topic: str
) -> None:
    search = Search(topic=topic, decode=Decode.REGISTRY, newest_first=False)
    hits, _ = searcher.search(registry_broker.bootstrap_servers, search)
    assert hits[0].value.format == "hex"
    assert "no schema registry" in hits[0].value.note


def test_a_registry_that_is_away_keeps_no_search_waiting(
    searcher: Searcher, registry_broker: EmbeddedBroker, topic: str
) -> None:
    scanner = Scanner(searcher.pool, RegistryAccount.at("http://127.0.0.1:9"))
    hits, _ = searcher.search(registry_broker.bootstrap_servers, Search(topic=topic), scanner)
    assert len(hits) == 5
    assert any("did not respond" in hit.value.note for hit in hits)
