"""What the pipelines have written, read back by a real client: the last value of each key, as it is in the topics."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable
from typing import Any

PATIENCE = 30.0


class Results:
    """Follows topics from their beginning in a thread of its own."""

    def __init__(self, servers: str, topics: Iterable[str]) -> None:
        from confluent_kafka import Consumer, TopicPartition

        self.latest: dict[str, dict[str, Any]] = {topic: {} for topic in topics}
        self.counts: dict[str, int] = dict.fromkeys(self.latest, 0)
        """Records in each topic that were read."""
        self._consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": "demo", "enable.auto.commit": False}
        )
        listed = self._consumer.list_topics(timeout=PATIENCE).topics
        self._places = [
            TopicPartition(topic, index, 0) for topic in self.latest for index in listed[topic].partitions
        ]
        self._consumer.assign(self._places)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="results", daemon=True)
        self._thread.start()

    def read_to_the_end(self) -> None:
        """Return when everything that is in the topics now was read; RuntimeError if that takes too long."""
        ends = {
            (place.topic, place.partition): self._consumer.get_watermark_offsets(place, timeout=PATIENCE)[1]
            for place in self._places
        }
        deadline = time.monotonic() + PATIENCE
        while any(self._position(place) < ends[place.topic, place.partition] for place in self._places):
            if time.monotonic() > deadline:
                raise RuntimeError("the results could not be read to their end")
            time.sleep(0.05)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def _position(self, place: Any) -> int:
        (found,) = self._consumer.position([place])
        return max(0, int(found.offset))

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(500, 0.2):
                if message.error() is None:
                    self._take(message)

    def _take(self, message: Any) -> None:
        topic, key, value = message.topic(), message.key(), message.value()
        self.counts[topic] += 1
        name = key.decode() if key is not None else f"{message.partition()}-{message.offset()}"
        try:
            self.latest[topic][name] = json.loads(value)
        except ValueError:
            self.latest[topic][name] = value
