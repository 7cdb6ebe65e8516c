"""Output of the pipelines, read back by a real client: the latest value of each key in the topics."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable
from typing import Any

from examples.demo.feeding import SILENT

TIMEOUT = 60.0


class Results:
    """Follows topics from their beginning in a thread; at the end it rereads them completely."""

    def __init__(self, servers: str, topics: Iterable[str]) -> None:
        self._servers = servers
        self.latest: dict[str, dict[str, Any]] = {topic: {} for topic in topics}
        self.counts: dict[str, int] = dict.fromkeys(self.latest, 0)
        """Number of records read, by topic."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="results", daemon=True)

    def __enter__(self) -> Results:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def read_to_the_end(self) -> None:
        """Discard all values and reread the topics to their end; raise RuntimeError if that takes too long."""
        self.close()
        for topic in self.latest:
            self.latest[topic], self.counts[topic] = {}, 0
        consumer, partitions = self._open()
        deadline = time.monotonic() + TIMEOUT
        ended: set[tuple[str | None, int | None]] = set()
        while len(ended) < partitions:
            if time.monotonic() > deadline:
                raise RuntimeError("the results could not be read to their end")
            for message in consumer.consume(500, 0.5):
                if message.error() is None:
                    self._take(message)
                else:
                    ended.add((message.topic(), message.partition()))
        consumer.close()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _open(self) -> tuple[Any, int]:
        """Consumer at the beginning of all partitions that reports their ends, and the number of partitions."""
        from confluent_kafka import Consumer, TopicPartition

        settings = {"bootstrap.servers": self._servers, "group.id": "demo", "enable.auto.commit": False}
        consumer = Consumer({**settings, **SILENT, "enable.partition.eof": True})
        listed = consumer.list_topics(timeout=TIMEOUT).topics
        partitions = [
            TopicPartition(topic, index, 0) for topic in self.latest for index in listed[topic].partitions
        ]
        consumer.assign(partitions)
        return consumer, len(partitions)

    def _follow(self) -> None:
        consumer, _ = self._open()
        while not self._stop.is_set():
            for message in consumer.consume(500, 0.2):
                if message.error() is None:
                    self._take(message)
        consumer.close()

    def _take(self, message: Any) -> None:
        topic, key, value = message.topic(), message.key(), message.value()
        self.counts[topic] += 1
        name = key.decode() if key is not None else f"{message.partition()}-{message.offset()}"
        try:
            self.latest[topic][name] = json.loads(value)
        except ValueError:
            self.latest[topic][name] = value
