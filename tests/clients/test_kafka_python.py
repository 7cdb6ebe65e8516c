"""kafka-python: pure Python, newest protocol versions."""

from __future__ import annotations

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from barnabas.testing import EmbeddedBroker


def read_all(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, consumer_timeout_ms=10_000)
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    values: list[bytes | None] = []
    for record in consumer:
        values.append(record.value)
        if len(values) == count:
            break
    consumer.close()
    return values


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_records_go_in_and_come_out(bootstrap: str, topic: str, codec: str | None) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, acks="all")
    values = [b"value %d" % number for number in range(200)]
    futures = [producer.send(topic, value, partition=0) for value in values]
    assert [future.get(10).offset for future in futures] == list(range(200))
    producer.close()
    assert read_all(bootstrap, topic, 200) == values


def test_an_idempotent_producer_is_served(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, linger_ms=0)
    for number in range(100):
        producer.send(topic, b"%d" % number, partition=0)
    producer.flush(60)
    producer.close()
    assert read_all(bootstrap, topic, 100) == [b"%d" % number for number in range(100)]


def test_positions_are_found_by_time_and_at_both_ends(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(5):
        producer.send(topic, b"v", partition=0, timestamp_ms=1_700_000_000_000 + number * 1000).get(10)
    producer.close()
    place = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    assert consumer.beginning_offsets([place]) == {place: 0}
    assert consumer.end_offsets([place]) == {place: 5}
    assert consumer.offsets_for_times({place: 1_700_000_002_000})[place].offset == 2
    consumer.close()


def test_topics_are_administered(broker: EmbeddedBroker) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    admin.create_topics([NewTopic(name="python-made", num_partitions=2, replication_factor=1)])
    assert "python-made" in admin.list_topics()
    admin.delete_topics(["python-made"])
    assert "python-made" not in admin.list_topics()
    admin.close()
