"""librdkafka through confluent-kafka: the basis of most clients in other languages."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from barnabas.testing import EmbeddedBroker
from tests.clients.conftest import consume, produce

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_produced_records_are_consumed_in_order(bootstrap: str, topic: str, acks: str) -> None:
    values = [b"%d" % number for number in range(500)]
    produce(bootstrap, topic, values, acks=acks)
    assert [message.value() for message in consume(bootstrap, topic, 500)] == values


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_round_trips(bootstrap: str, topic: str, codec: str) -> None:
    values = [b"value %d " % number * 20 for number in range(200)]
    produce(bootstrap, topic, values, compression_type=codec, linger_ms=20)
    assert [message.value() for message in consume(bootstrap, topic, 200)] == values


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topic_can_choose_its_own_codec(broker: EmbeddedBroker, codec: str) -> None:
    topic = broker.create_topic(configs={"compression.type": codec})
    values = [b"value %d" % number for number in range(100)]
    produce(broker.bootstrap_servers, topic, values, compression_type="gzip", linger_ms=20)
    assert [message.value() for message in consume(broker.bootstrap_servers, topic, 100)] == values


def test_keys_headers_and_timestamps_survive(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    headers: list[tuple[str, str | bytes | None]] = [("trace", b"1"), ("trace", b"2"), ("empty", None)]
    producer.produce(topic, b"value", key=b"key", headers=headers, timestamp=1_700_000_000_123, partition=0)
    producer.produce(topic, None, key=b"tombstone", partition=0)
    assert producer.flush(60) == 0
    first, second = consume(bootstrap, topic, 2)
    assert (first.key(), first.headers(), first.timestamp()[1]) == (b"key", headers, 1_700_000_000_123)
    assert (second.key(), second.value()) == (b"tombstone", None)


def test_a_reader_may_start_in_the_middle_of_a_batch(bootstrap: str, topic: str) -> None:
    values = [b"%d" % number for number in range(100)]
    produce(bootstrap, topic, values, linger_ms=50)
    assert [message.offset() for message in consume(bootstrap, topic, 50, start=50)] == list(range(50, 100))


def test_offset_out_of_range_gets_an_error(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, [b"one"])
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "auto.offset.reset": "error"})
    consumer.assign([TopicPartition(topic, 0, 5)])
    message = consumer.poll(60)
    consumer.close()
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._AUTO_OFFSET_RESET


def test_a_waiting_reader_gets_a_record_at_once(bootstrap: str, topic: str) -> None:
    settings = {"group.id": "unused", "enable.auto.commit": False, "fetch.wait.max.ms": 50_000}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert consumer.poll(0.3) is None
    started = time.monotonic()
    produce(bootstrap, topic, [b"news"], linger_ms=0)
    message = consumer.poll(60)
    waited = time.monotonic() - started
    consumer.close()
    assert message is not None
    assert message.value() == b"news"
    assert waited < 40  # not when the fetch has waited for its time


def test_a_record_larger_than_the_fetch_limits_is_still_delivered(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, [b"x" * 500_000])
    (message,) = consume(
        bootstrap, topic, 1, fetch_message_max_bytes=1000, fetch_max_bytes=1000, message_max_bytes=1000
    )
    assert len(message.value() or b"") == 500_000


def test_a_batch_above_max_message_bytes_is_refused(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic(configs={"max.message.bytes": "1000"})
    failures: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, b"x" * 5000, on_delivery=lambda error, _: failures.append(error))
    producer.flush(60)
    assert [error and error.code() for error in failures] == [KafkaError.MSG_SIZE_TOO_LARGE]


def test_an_idempotent_producer_writes_each_record_once(bootstrap: str, topic: str) -> None:
    values = [b"%d" % number for number in range(2000)]
    offsets = produce(bootstrap, topic, values, enable_idempotence=True, linger_ms=0)
    assert sorted(offsets) == list(range(2000))
    assert [message.value() for message in consume(bootstrap, topic, 2000)] == values


def test_a_topic_is_created_when_it_is_first_written_to(bootstrap: str) -> None:
    produce(bootstrap, "made-on-the-way", [b"first"])
    assert [message.value() for message in consume(bootstrap, "made-on-the-way", 1)] == [b"first"]


def test_offsets_are_found_by_time(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50})
    for number in range(10):
        producer.produce(topic, b"v", partition=0, timestamp=1_700_000_000_000 + number * 1000)
    assert producer.flush(60) == 0
    admin = AdminClient({"bootstrap.servers": bootstrap})
    partition = TopicPartition(topic, 0)

    def find(spec: OffsetSpec) -> int:
        return int(admin.list_offsets({partition: spec})[partition].result().offset)

    assert find(OffsetSpec.earliest()) == 0
    assert find(OffsetSpec.latest()) == 10
    assert find(OffsetSpec.max_timestamp()) == 9
    assert find(OffsetSpec.for_timestamp(1_700_000_003_500)) == 4
    assert find(OffsetSpec.for_timestamp(1_800_000_000_000)) == -1


class TestAdministration:
    @pytest.fixture
    def admin(self, bootstrap: str) -> AdminClient:
        return AdminClient({"bootstrap.servers": bootstrap})

    def test_a_topic_lives_from_creation_to_deletion(self, admin: AdminClient) -> None:
        admin.create_topics([NewTopic("short-lived", 3, config={"retention.ms": "1000"})])[
            "short-lived"
        ].result()
        assert len(admin.list_topics(timeout=60).topics["short-lived"].partitions) == 3
        admin.create_partitions([NewPartitions("short-lived", 5)])["short-lived"].result()
        assert len(admin.list_topics("short-lived", timeout=60).topics["short-lived"].partitions) == 5
        admin.delete_topics(["short-lived"])["short-lived"].result()
        assert "short-lived" not in admin.list_topics(timeout=60).topics

    @pytest.mark.parametrize(
        ("topic", "error"),
        [
            (NewTopic("bad name!", 1), KafkaError.TOPIC_EXCEPTION),
            (NewTopic("fine", 0), KafkaError.INVALID_PARTITIONS),
            (NewTopic("fine", 1, replication_factor=3), KafkaError.INVALID_REPLICATION_FACTOR),
            (NewTopic("fine", 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
        ],
    )
    def test_a_wrong_topic_is_refused_with_kafkas_own_error(
        self, admin: AdminClient, topic: NewTopic, error: int
    ) -> None:
        with pytest.raises(KafkaException) as raised:
            admin.create_topics([topic])[topic.topic].result()
        assert raised.value.args[0].code() == error

    def test_configs_are_described_and_changed(self, admin: AdminClient, topic: str) -> None:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        before = admin.describe_configs([resource])[resource].result()
        assert before["retention.ms"].value == "604800000"
        assert before["retention.ms"].is_default
        change = ConfigEntry("retention.ms", "5000", incremental_operation=AlterConfigOpType.SET)
        changed = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
        admin.incremental_alter_configs([changed])[changed].result()
        after = admin.describe_configs([resource])[resource].result()
        assert after["retention.ms"].value == "5000"
        assert not after["retention.ms"].is_default

    def test_the_cluster_names_its_one_broker(self, admin: AdminClient, broker: EmbeddedBroker) -> None:
        cluster = admin.describe_cluster().result()
        assert [(node.id, node.port) for node in cluster.nodes] == [(broker.broker.node_id, broker.port)]
        assert cluster.controller.id == broker.broker.node_id
        assert cluster.cluster_id == broker.broker.cluster_id

    def test_deleted_records_disappear_and_offsets_stay(
        self, admin: AdminClient, bootstrap: str, topic: str
    ) -> None:
        produce(bootstrap, topic, [b"%d" % number for number in range(10)], linger_ms=0)
        result = admin.delete_records([TopicPartition(topic, 0, 4)])
        assert next(iter(result.values())).result().low_watermark == 4
        assert [message.value() for message in consume(bootstrap, topic, 6, start=4)] == [
            b"4",
            b"5",
            b"6",
            b"7",
            b"8",
            b"9",
        ]
