"""Helpers of connector tests: run one to the end of its input, and read topics with a real client."""

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from pyspark.sql import SparkSession

from barnabas.connect.compiling import ConnectorPlan, files_of
from barnabas.connect.declaration import Connector, read_connector
from barnabas.pipelines.definitions.files import BOOTSTRAP
from barnabas.pipelines.running.runner import Runner

DEADLINE = 60.0


def connector(folder: Path, text: str, servers: str, name: str = "connector.yml") -> Connector:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return read_connector(folder / name, {BOOTSTRAP: servers})


def run_once(declared: Connector, spark: SparkSession) -> Runner:
    """Everything that is there now; feeders first, as `barnabas connect run --once` does it."""
    plans: list[ConnectorPlan] = []

    def plan(_: Any, session: SparkSession) -> ConnectorPlan:
        plans.append(ConnectorPlan(declared, session))
        return plans[-1]

    runner = Runner(files_of(declared), spark, plans=plan)
    try:
        runner.prepare()
        for feeder in plans[-1].context.feeders:
            while feeder.fetch():
                pass
        runner.run_once()
    finally:
        runner.close()
    return runner


def produce(servers: str, topic: str, records: Iterable[tuple[Any, Any]]) -> None:
    """(key, value): None, bytes, or a value encoded as JSON."""
    producer = Producer({"bootstrap.servers": servers})
    for key, value in records:
        producer.produce(topic, _bytes(value), key=None if key is None else str(key).encode())
    assert producer.flush(DEADLINE) == 0


def _bytes(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else json.dumps(value).encode()


def consume(servers: str, topic: str) -> list[Any]:
    """Committed records of all partitions, in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        parts = consumer.list_topics(topic, timeout=DEADLINE).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in parts])
        found: list[Message] = []
        ended: set[int | None] = set()
        deadline = time.monotonic() + DEADLINE
        while len(ended) < len(parts):
            assert time.monotonic() < deadline, f"{topic} was not read to its end"
            message = consumer.poll(1.0)
            if message is not None and message.error():
                ended.add(message.partition())
            elif message is not None:
                found.append(message)
        return found
    finally:
        consumer.close()


def headers_of(message: Any) -> Mapping[str, str]:
    return {name: value.decode() for name, value in message.headers() or []}
