"""The shop and its services: a real client writes what the generators make, at a steady rate."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping

from barnabas.pipelines.library.activity import generator as activity
from barnabas.pipelines.library.operations import generator as operations
from barnabas.pipelines.library.records import Generated

ACTIVITY_RATE = 1500  # events a second; with the services' 2,000 together
OPERATIONS_RATE = 500
SPEED = 60  # an hour of the shop passes in a minute
BAD_SHARE = 0.0005
TICK = 0.02  # seconds
SLACK = 600  # seconds
PATIENCE = 30.0


class Feeder:
    """Writes until it is stopped, and counts what the broker has acknowledged."""

    def __init__(self, servers: str, topics: Mapping[str, str], seconds: float, seed: int) -> None:
        from confluent_kafka import Producer

        settings = {"bootstrap.servers": servers, "acks": "all", "linger.ms": 20, "compression.type": "lz4"}
        self._producer = Producer(settings)
        self._seconds = seconds
        # The shop's last event is a little before now: a broker takes no records from the future.
        start = int((time.time() - seconds * (SPEED - 1) - SLACK) * 1000)
        self._topics = topics
        self._sources = (
            (ACTIVITY_RATE, activity.records(seed, start, ACTIVITY_RATE / SPEED, BAD_SHARE)),
            (OPERATIONS_RATE, operations.records(seed, start, OPERATIONS_RATE / SPEED)),
        )
        self.delivered: Counter[str] = Counter()
        """By topic."""
        self.kinds: Counter[str] = Counter()
        """Events of the shop by kind; `bad` for what is none."""
        self._failure: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Write no more, and wait until the broker has everything; RuntimeError if it has not."""
        self._stop.set()
        self._thread.join()
        if self._producer.flush(PATIENCE) or self._failure is not None:
            raise RuntimeError(f"not all records were delivered: {self._failure or 'no answer in time'}")

    def _run(self) -> None:
        began = time.monotonic()
        sent = [0] * len(self._sources)
        while not self._stop.wait(TICK) and time.monotonic() - began < self._seconds:
            elapsed = time.monotonic() - began
            for index, (rate, source) in enumerate(self._sources):
                due = int(elapsed * rate) - sent[index]
                self._send(source, due)
                sent[index] += due
            self._producer.poll(0)

    def _send(self, source: Iterator[Generated], count: int) -> None:
        for _ in range(count):
            record = next(source)
            self._producer.produce(
                self._topics[record.topic],
                record.value,
                record.key,
                timestamp=record.time,
                on_delivery=self._acknowledged,
            )
            if record.topic == activity.TOPIC:
                self.kinds[_kind(record.value)] += 1

    def _acknowledged(self, error: object, message: object) -> None:
        if error is not None:
            self._failure = str(error)
        else:
            self.delivered[message.topic()] += 1  # type: ignore[attr-defined]


def _kind(value: bytes | None) -> str:
    if value is None or value == activity.BAD_VALUE:
        return "bad"
    return str(json.loads(value)["kind"])
