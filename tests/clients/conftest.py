"""Real clients against one broker in this process."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from barnabas.testing import EmbeddedBroker
from tests.support.consumers import stop_all

DEADLINE = 60.0  # machines that run all tests at once are slow

PROCESSES = int(os.environ.get("NODE_PROCESSES", "1"))
if PROCESSES > 1:  # `make node-processes` runs tests of this folder on nodes with several processes
    assert EmbeddedBroker.__init__.__kwdefaults__ is not None
    EmbeddedBroker.__init__.__kwdefaults__["processes"] = PROCESSES


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture(autouse=True)
def _nothing_goes_on() -> Iterator[None]:
    """A failed test must not leave consumers that reconnect indefinitely."""
    yield
    stop_all()


@pytest.fixture
def bootstrap(broker: EmbeddedBroker) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def topic(broker: EmbeddedBroker) -> str:
    return broker.create_topic()


def produce(
    bootstrap: str, topic: str, values: list[bytes], *, partition: int = 0, **settings: object
) -> list[int]:
    """Send with librdkafka and return the offsets; any error fails the test."""
    offsets: list[int] = []

    def delivered(error: object, message: Message) -> None:
        assert error is None, error
        offset = message.offset()
        offsets.append(-1 if offset is None else offset)  # unknown with acks=0

    producer = Producer(
        {"bootstrap.servers": bootstrap, **{k.replace("_", "."): v for k, v in settings.items()}}
    )
    for value in values:
        producer.produce(topic, value, partition=partition, on_delivery=delivered)
    assert producer.flush(DEADLINE) == 0
    return offsets


def consume(
    bootstrap: str, topic: str, count: int, *, partition: int = 0, start: int = 0, **settings: object
) -> list[Message]:
    """Read `count` records from an offset on with librdkafka, without a group."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            **{k.replace("_", "."): v for k, v in settings.items()},
        }
    )
    consumer.assign([TopicPartition(topic, partition, start)])
    messages: list[Message] = []
    deadline = time.monotonic() + DEADLINE
    try:
        while len(messages) < count and time.monotonic() < deadline:
            for message in consumer.consume(count - len(messages), 0.5):
                assert message.error() is None, message.error()
                messages.append(message)
    finally:
        consumer.close()
    assert len(messages) == count
    return messages
