"""Topics whose consumers read only flushed records (`barnabas.visible=flushed`), with a real client."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer

from barnabas.testing import EmbeddedBroker


def test_a_consumer_gets_every_record_and_none_before_it_is_flushed(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic(configs={"barnabas.visible": "flushed"})
    log = broker.broker.replicas.by_name[topic][0].log
    client = {"bootstrap.servers": broker.bootstrap_servers}
    producer = Producer({**client, "acks": 1, "linger.ms": 0})
    consumer = Consumer({**client, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    for number in range(20):
        producer.produce(topic, str(number).encode())
        assert producer.flush(60) == 0
        (message,) = consumer.consume(1, 60)
        assert (message.value(), message.offset()) == (str(number).encode(), number)
        assert log.flushed_offset > number
    consumer.close()
