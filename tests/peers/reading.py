"""Reading and writing with librdkafka, for tests that compare it with other clients."""

from __future__ import annotations

from contextlib import closing
from itertools import count

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

_groups = count()


def produce(servers: str, topic: str, numbers: range, **settings: object) -> None:
    """Records with these numbers as keys; all are acknowledged when this returns."""
    producer = Producer({"bootstrap.servers": servers, **settings})
    for number in numbers:
        producer.produce(topic, key=str(number), value=f"confluent-{number}", headers={"writer": "confluent"})
        producer.poll(0)
    assert producer.flush(60) == 0


def read_to_end(servers: str, topic: str, partitions: int) -> list[Message]:
    """Every committed record, from the first to the last."""
    settings = {
        "bootstrap.servers": servers,
        "group.id": f"to-end-{next(_groups)}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    found: list[Message] = []
    ended: set[int | None] = set()
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        while len(ended) < partitions:
            message = consumer.poll(60)
            assert message is not None, f"{topic}: no end within a minute"
            error = message.error()
            if error is None:
                found.append(message)
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
    return found


def values_to_end(servers: str, topic: str, partitions: int) -> list[str]:
    messages = read_to_end(servers, topic, partitions)
    return sorted((message.value() or b"").decode().rstrip(".") for message in messages)


class CommittedOffsets:
    """The committed offsets of one group in one topic, read with a client that stays connected."""

    def __init__(self, servers: str, group: str, topic: str, partitions: int) -> None:
        # Uncommitted, so that the offsets of a pending transaction are not waited for.
        settings = {"isolation.level": "read_uncommitted", "group.id": group}
        self._consumer = Consumer({"bootstrap.servers": servers, **settings})
        self._asked = [TopicPartition(topic, partition) for partition in range(partitions)]

    def now(self) -> list[int]:
        """Zero where nothing is committed."""
        return [max(0, answer.offset) for answer in self._consumer.committed(self._asked, 60)]

    def close(self) -> None:
        self._consumer.close()


def create_topic(servers: str, topic: str, partitions: int, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, partitions, 1, config=configs)])[topic].result(60)
