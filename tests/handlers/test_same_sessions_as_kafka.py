"""A conversation in fetch sessions (KIP-227) with Apache Kafka and Barnabas: the same responses."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.connection import BrokerConnection
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from barnabas.testing import EmbeddedBroker
from tests.handlers.test_same_data_answers_as_kafka import (
    Ids,
    answer,
    batch,
    comparable,
    create_topics,
    differences,
    write,
)
from tests.support.kafka.broker import ApacheKafka

pytestmark = pytest.mark.java


class Conversation:
    def __init__(self, connection: BrokerConnection, ids: Ids, version: int) -> None:
        self._connection = connection
        self._ids = ids
        self._version = version
        self.session = 0
        self.heard: list[Any] = []

    async def produce(self, topic: str, partition: int = 0) -> None:
        await answer(self._connection, *write(self._ids, topic, batch(b"x" * 100), partition=partition))

    async def fetch(self, epoch: int, *wanted: tuple[str, int, int], forget: str = "", **other: int) -> None:
        limit = other.pop("limit", 1 << 20)
        topics = [
            FetchTopic(
                topic,
                self._ids.get(topic, b"y" * 16),
                [FetchPartition(index, -1, offset, partition_max_bytes=limit)],
            )
            for topic, index, offset in wanted
        ]
        forgotten = [ForgottenTopic(forget, self._ids[forget], [0])] if forget else []
        request = FetchRequest(
            max_wait_ms=10,
            min_bytes=1,
            session_id=other.get("session", self.session),
            session_epoch=epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
        )
        response: Any = await self._connection.send(request, self._version)
        if epoch == 0:
            self.session = response.session_id
        for topic in response.responses:
            topic.topic = topic.topic or next(
                (name for name, known in self._ids.items() if known == topic.topic_id), "unknown"
            )
        response.responses.sort(
            key=lambda topic: topic.topic
        )  # a session begins with those that waited longest
        self.heard.append((response.session_id != 0, comparable(response)))


async def talk(address: str, version: int) -> list[Any]:
    host, _, port = address.rpartition(":")
    connection = await BrokerConnection.connect(host, int(port))
    try:
        consumer = Conversation(connection, await create_topics(connection), version)
        await consumer.produce("plain")
        await consumer.fetch(0, ("plain", 0, 0), ("keyed", 0, 0), ("small", 0, 0))
        await consumer.fetch(1, ("plain", 0, 1))
        await consumer.fetch(2)
        await consumer.produce("keyed")
        await consumer.fetch(3)
        await consumer.fetch(4)  # no later offset requested: the same data again
        await consumer.fetch(5, ("keyed", 0, 1))
        await consumer.fetch(6, forget="keyed")
        await consumer.produce("keyed")
        await consumer.fetch(7)
        await consumer.fetch(8, ("keyed", 0, 1), ("nope", 0, 0), ("plain", 9, 0), ("small", 0, 77))
        await consumer.fetch(9)
        await consumer.fetch(9)
        await consumer.fetch(11)
        await consumer.fetch(3, session=12345)
        await consumer.fetch(0, ("plain", 0, 0), limit=1)
        await consumer.fetch(-1)
        await consumer.fetch(1)
        await consumer.fetch(-1, ("plain", 0, 0), session=0)
        await consumer.fetch(0)
        return consumer.heard
    finally:
        connection.close()


@pytest.mark.parametrize("version", [11, 18])
def test_sessions_are_answered_as_apache_kafka_does(version: int, tmp_path: Path) -> None:
    with ApacheKafka(tmp_path / "kafka", heap="256m") as kafka, EmbeddedBroker() as broker:
        expected = asyncio.run(talk(kafka.bootstrap_servers, version))
        ours = asyncio.run(talk(broker.bootstrap_servers, version))
    different = [
        f"answer {number}: session {their_answer[0]}, {our_answer[0]}\n"
        + "\n".join(differences(their_answer[1], our_answer[1]))
        for number, (their_answer, our_answer) in enumerate(zip(expected, ours, strict=True))
        if our_answer != their_answer
    ]
    assert not different, "\n".join(different)
