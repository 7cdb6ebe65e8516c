"""Runs a template of the library on generated data, and reads its output with a real client."""

import itertools
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from barnabas.pipelines.alarms.state import AlarmEvent
from barnabas.pipelines.definitions.files import BOOTSTRAP, read_pipeline
from barnabas.pipelines.definitions.templates import copy_template, generator_of
from barnabas.pipelines.library.records import Generated
from barnabas.pipelines.running.runner import Runner

HOUR = 3_600_000
START = int(time.time() * 1000) // HOUR * HOUR - 12 * HOUR
"""The beginning of an hour in milliseconds: of today, because a broker removes what is older than a week."""

TIMEOUT = 60


class Read(NamedTuple):
    key: str | None
    value: bytes | None
    headers: dict[str, str]


class Stored(NamedTuple):
    """A record as the topic has it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


@dataclass
class Workbench:
    """One template in one folder, against one broker. `settings` go over the template's configuration."""

    template: str
    folder: Path
    servers: str
    settings: Mapping[str, str] = field(default_factory=dict)
    alarms: list[AlarmEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        copy_template(self.template, self.folder)
        self.reload()

    def reload(self) -> None:
        """After the folder's files were changed."""
        self.files = read_pipeline(self.folder, {BOOTSTRAP: self.servers, **self.settings})

    def generate(self, count: int, seed: int = 7, per_second: float = 20.0) -> list[Generated]:
        return list(itertools.islice(generator_of(self.template)(seed, START, per_second), count))

    def send(self, records: Iterable[Generated]) -> None:
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5})
        for record in records:
            topic = self.files.configuration[record.topic]
            producer.produce(topic, record.value, record.key, timestamp=record.time)
            producer.poll(0)
        assert producer.flush(TIMEOUT) == 0

    def send_aborted(self, records: Iterable[Generated]) -> None:
        """Invisible to read_committed readers."""
        producer = Producer(
            {"bootstrap.servers": self.servers, "transactional.id": f"aborted-{self.template}"}
        )
        producer.init_transactions(TIMEOUT)
        producer.begin_transaction()
        for record in records:
            producer.produce(
                self.files.configuration[record.topic], record.value, record.key, timestamp=record.time
            )
        producer.flush(TIMEOUT)
        producer.abort_transaction(TIMEOUT)

    def create_inputs(self, *settings: str, partitions: int = 2) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers})
        topics = [NewTopic(self.files.configuration[name], partitions) for name in settings]
        for future in admin.create_topics(topics).values():
            future.result(TIMEOUT)

    def run(self, session: SparkSession) -> Runner:
        """Process everything available; return the runner."""
        runner = Runner(self.files, session, alarm_listener=self.alarms.extend)
        runner.prepare()
        try:
            runner.run_once()
        finally:
            runner.close()
        return runner

    def read(self, topic: str) -> list[Read]:
        return read_topic(self.servers, topic)

    def latest(self, topic: str) -> dict[str | None, Any]:
        """The last value of each key, as a compacted topic keeps it."""
        return {record.key: json.loads(record.value or b"null") for record in self.read(topic)}


def read_topic(servers: str, topic: str) -> list[Read]:
    """All records of a topic that are committed, partition by partition, as text."""
    return [
        Read(
            None if record.key is None else record.key.decode(),
            record.value,
            {name: (value or b"").decode() for name, value in record.headers},
        )
        for record in stored_in(servers, topic)
    ]


def stored_in(servers: str, topic: str) -> list[Stored]:
    """All records of a topic that are committed, partition by partition, byte for byte."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "tests", "enable.partition.eof": True})
    partitions = consumer.list_topics(topic, timeout=TIMEOUT).topics[topic].partitions
    consumer.assign([TopicPartition(topic, index, 0) for index in partitions])
    found: list[Stored] = []
    ended: set[int | None] = set()
    while len(ended) < len(partitions):
        message = consumer.poll(TIMEOUT)
        assert message is not None, f"{topic} could not be read to its end"
        if message.error() is not None:
            ended.add(message.partition())
            continue
        place = message.partition() or 0, message.offset() or 0
        headers: Any = message.headers() or ()
        found.append(Stored(*place, message.key(), message.value(), list(headers)))
    consumer.close()
    return found
