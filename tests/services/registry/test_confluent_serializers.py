"""confluent-kafka's six serializers and their deserializers, through a topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from barnabas.client.schemas.client import SchemaClient, decode, split_message_index
from barnabas.testing import EmbeddedBroker
from tests.services.registry.protobuf_messages import message_class

AVRO = '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"}]}'
JSON = '{"title":"Order","type":"object","properties":{"id":{"type":"integer"}},"additionalProperties":false}'

LONG = 1 << 60  # the client takes no record of less than six bytes
USE_LATEST = {"auto.register.schemas": False, "use.latest.version": True}


@pytest.fixture
def client(registry_broker: EmbeddedBroker) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry_broker.registry_url}) as made:
        yield made


def through_a_topic(broker: EmbeddedBroker, encode: Callable[[Any], bytes], value: Any) -> tuple[str, bytes]:
    topic = broker.create_topic()
    context = SerializationContext(topic, MessageField.VALUE)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, encode(value, context))  # type: ignore[call-arg]
    producer.flush(30)
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": topic,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        record = consumer.poll(60)
        assert record is not None
        assert record.error() is None
        return topic, record.value() or b""
    finally:
        consumer.close()


def test_avro_is_written_and_read(registry_broker: EmbeddedBroker, client: SchemaRegistryClient) -> None:
    topic, data = through_a_topic(registry_broker, AvroSerializer(client, AVRO), {"id": 7})
    read = AvroDeserializer(client)(data, SerializationContext(topic, MessageField.VALUE))
    assert read == {"id": 7}


def test_json_is_written_and_read(registry_broker: EmbeddedBroker, client: SchemaRegistryClient) -> None:
    topic, data = through_a_topic(registry_broker, JSONSerializer(JSON, client), {"id": 7})
    read = JSONDeserializer(JSON, schema_registry_client=client)(
        data, SerializationContext(topic, MessageField.VALUE)
    )
    assert read == {"id": 7}


def test_protobuf_is_written_and_read(registry_broker: EmbeddedBroker, client: SchemaRegistryClient) -> None:
    order = message_class("Order")
    settings = {"use.deprecated.format": False}
    topic, data = through_a_topic(registry_broker, ProtobufSerializer(order, client, settings), order(id=7))
    read = ProtobufDeserializer(order, settings, client)(
        data, SerializationContext(topic, MessageField.VALUE)
    )
    assert read.id == 7
    stored = client.get_latest_version(f"{topic}-value").schema.schema_str
    assert "message Order" in (stored or "")  # a text that others can read, not the descriptor that was sent


def test_our_own_client_finds_the_schema_of_a_record(
    registry_broker: EmbeddedBroker, client: SchemaRegistryClient
) -> None:
    order = message_class("Order")
    topic, data = through_a_topic(registry_broker, ProtobufSerializer(order, client), order(id=7))
    with SchemaClient(registry_broker.registry_url) as schemas:
        schema_id, payload = decode(data)
        assert schemas.schema(schema_id).type == "PROTOBUF"
        assert schemas.latest(f"{topic}-value").id == schema_id
        assert schemas.schema(schema_id) is schemas.schema(schema_id)
    path, message = split_message_index(payload)
    assert (path, order.FromString(message).id) == ((0,), 7)


@pytest.mark.parametrize("settings", [{}, {"auto.register.schemas": False}, USE_LATEST])
def test_a_guid_in_a_header_names_the_schema(
    registry_broker: EmbeddedBroker, client: SchemaRegistryClient, settings: dict[str, Any]
) -> None:
    topic = registry_broker.create_topic()
    client.register_schema(f"{topic}-value", Schema(AVRO, "AVRO"))
    with SchemaRegistryClient({"url": registry_broker.registry_url}) as fresh:
        headers: list[tuple[str, str | bytes | None]] = []
        context = SerializationContext(topic, MessageField.VALUE, headers)
        serializer = AvroSerializer(
            fresh, AVRO, conf={**settings, "schema.id.serializer": header_schema_id_serializer}
        )
        data = serializer({"id": LONG}, context)
        assert [name for name, _ in headers] == ["__value_schema_id"]
        assert AvroDeserializer(fresh)(data, context) == {"id": LONG}
