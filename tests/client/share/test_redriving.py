"""A redrive that is killed, or concurrent with another one: each dead letter arrives once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial

import confluent_kafka
import pytest

from barnabas.client.cluster import Client
from barnabas.client.share import Sendable, pending_letters, redrive
from barnabas.common.errors import KafkaError
from barnabas.testing import EmbeddedBroker
from tests.support.waiting import until

LETTERS = 6000


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        running.create_topic("jobs", partitions=2)
        running.create_topic("dlq.jobs", partitions=2)
        yield running


def write_letters(broker: EmbeddedBroker, count: int) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "queue.buffering.max.messages": count}
    )
    headers: dict[str, str | bytes | None] = {"__connect.errors.topic": "jobs"}
    for number in range(count):
        producer.produce("dlq.jobs", b"%d" % number, partition=number % 2, headers=headers)
    assert producer.flush(60) == 0


def consumer_of(broker: EmbeddedBroker, isolation: str) -> confluent_kafka.Consumer:
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "reads",
        "enable.partition.eof": True,
    }
    return confluent_kafka.Consumer({**settings, "isolation.level": isolation})


def end_offset(consumer: confluent_kafka.Consumer) -> int:
    parts = [confluent_kafka.TopicPartition("jobs", index) for index in (0, 1)]
    return sum(consumer.get_watermark_offsets(part, 10)[1] for part in parts)


def committed_values(broker: EmbeddedBroker) -> Counter[bytes]:
    consumer = consumer_of(broker, "read_committed")
    begin = confluent_kafka.OFFSET_BEGINNING
    consumer.assign([confluent_kafka.TopicPartition("jobs", index, begin) for index in (0, 1)])
    found, ended = Counter[bytes](), set[int | None]()
    while len(ended) < 2:
        for message in consumer.consume(1000, 10):
            if message.error() is None:
                found[message.value() or b""] += 1
            else:
                ended.add(message.partition())
    consumer.close()
    return found


def has_begun(process: subprocess.Popen[bytes], watcher: confluent_kafka.Consumer, before: int) -> bool:
    return process.poll() is not None or end_offset(watcher) > before


def test_a_redrive_killed_half_way_is_resumed_without_a_letter_twice_or_lost(broker: EmbeddedBroker) -> None:
    write_letters(broker, LETTERS)
    command = [sys.executable, "-m", "barnabas", "queue", "dead", "redrive", "dlq.jobs"]
    command += ["--bootstrap-server", broker.bootstrap_servers]
    kills = 0
    watcher = consumer_of(broker, "read_uncommitted")
    for _ in range(3):
        before = end_offset(watcher)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            until(partial(has_begun, process, watcher, before))
            process.kill()
        kills += process.returncode < 0
    watcher.close()
    assert kills, "the redrive was faster than the kill"
    assert sum(committed_values(broker).values()) < LETTERS
    finished = subprocess.run([*command, "-o", "json"], check=True, capture_output=True, timeout=120)

    assert b'"lost": []' in finished.stdout
    assert committed_values(broker) == Counter(b"%d" % number for number in range(LETTERS))


def test_a_second_redrive_of_a_topic_fences_the_first(broker: EmbeddedBroker) -> None:
    write_letters(broker, 1200)

    async def work() -> tuple[bool, int]:
        async with Client(broker.bootstrap_servers) as client, Client(broker.bootstrap_servers) as other:
            letters = await pending_letters(client, "dlq.jobs", Sendable(lambda letter: True, None))
            stale = list(letters)
            overtaken = asyncio.Event()
            second: list[asyncio.Task[int]] = []

            async def take_over() -> int:
                return (await redrive(other, "dlq.jobs", stale)).sent

            def after_a_chunk(sent: int) -> None:
                if not overtaken.is_set():
                    overtaken.set()
                    second.append(asyncio.create_task(take_over()))

            try:
                await redrive(client, "dlq.jobs", letters, progress=after_a_chunk)
                was_fenced = False
            except KafkaError as error:
                was_fenced = "another redrive of dlq.jobs has begun" in str(error)
            return was_fenced, await second[0]

    was_fenced, sent = asyncio.run(work())
    assert was_fenced or sent == 0  # the first may have ended before the second began
    assert committed_values(broker) == Counter(b"%d" % number for number in range(1200))
