"""Load of the shop and its services at a steady rate: a real client writes events, an agent reads the services' log."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from barnabas.pipelines.library.activity import generator as activity
from barnabas.pipelines.library.operations import generator as operations
from barnabas.pipelines.library.records import Generated
from examples.demo.expected_counts import ExpectedCounts
from examples.demo.service_log import ServiceLog

ACTIVITY_RATE = 1500  # events a second; 2,000 together with the services
OPERATIONS_RATE = 500
RATE = ACTIVITY_RATE + OPERATIONS_RATE
SPEED = 60  # an hour of the shop passes in a minute
HOUR = 3_600_000  # milliseconds
BAD_SHARE = 0.0005
TICK = 0.02  # seconds
SLACK = 600  # seconds
LAST_WORDS = 5.0  # seconds for the last acknowledgements while the counts are still displayed
TIMEOUT = 30.0
SILENT = {
    "log_level": 2
}  # delivery failures reach the caller; other log lines are about brokers that stop before their clients


class Feeder:
    """Writes for some seconds in a thread; after `finish` the broker has all `written` records."""

    def __init__(
        self, servers: str, topics: Mapping[str, str], seconds: float, seed: int, folder: Path
    ) -> None:
        from confluent_kafka import Producer

        settings = {
            "bootstrap.servers": servers,
            "acks": "all",
            "linger.ms": 20,
            "compression.type": "lz4",
            **SILENT,
        }
        self._producer = Producer(settings)
        self._service_log = ServiceLog(servers, topics[operations.TOPIC], folder)
        self._seconds = seconds
        # The shop's last event is slightly in the past: a broker rejects timestamps in the future.
        start = int((time.time() - seconds * (SPEED - 1) - SLACK) * 1000)
        self._topics = topics
        incidents = incidents_within(seconds * SPEED)
        self._sources = (
            (ACTIVITY_RATE, activity.records(seed, start, ACTIVITY_RATE / SPEED, BAD_SHARE), self._produce),
            (OPERATIONS_RATE, operations.records(seed, start, OPERATIONS_RATE / SPEED, incidents), self._log),
        )
        self.incidents = [
            operations.Incident(each.service, start + each.begin, start + each.end) for each in incidents
        ]
        """Milliseconds since 1970."""
        self._acknowledged: Counter[str] = Counter()
        self.written = ExpectedCounts()
        self._failure: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def __enter__(self) -> Feeder:
        self._service_log.start()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        self._service_log.close()

    @property
    def delivered(self) -> Mapping[str, int]:
        """Records that the broker has acknowledged, by topic."""
        return {**self._acknowledged, self._service_log.topic: self._service_log.delivered}

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def finish(self) -> None:
        """Wait until all records are written and acknowledged; raise RuntimeError if they are not."""
        self._thread.join()
        if self._producer.flush(TIMEOUT) or self._failure is not None:
            raise RuntimeError(f"not all records were delivered: {self._failure or 'no answer in time'}")
        self._service_log.finish(TIMEOUT)

    def _run(self) -> None:
        began = time.monotonic()
        sent = [0] * len(self._sources)
        elapsed = 0.0
        while elapsed < self._seconds and not self._stop.wait(TICK):
            elapsed = min(time.monotonic() - began, self._seconds)
            for index, (rate, source, write) in enumerate(self._sources):
                due = int(elapsed * rate) - sent[index]
                self._send(source, due, write)
                sent[index] += due
            self._service_log.flush()
            self._producer.poll(0)
        self._producer.flush(TICK if self._stop.is_set() else LAST_WORDS)

    def _send(self, source: Iterator[Generated], count: int, write: Callable[[Generated], None]) -> None:
        for _ in range(count):
            record = next(source)
            write(record)
            self.written.take(record)

    def _log(self, record: Generated) -> None:
        assert record.value is not None
        self._service_log.write(record.value)

    def _produce(self, record: Generated) -> None:
        while not self._hand_over(record):
            self._producer.poll(TICK)  # the client's queue is full because the broker is busy

    def _hand_over(self, record: Generated) -> bool:
        topic, on_delivery = self._topics[record.topic], self._hear
        try:
            self._producer.produce(
                topic, record.value, record.key, timestamp=record.time, on_delivery=on_delivery
            )
        except BufferError:
            return False
        return True

    def _hear(self, error: object, message: object) -> None:
        if error is not None:
            self._failure = str(error)
        else:
            self._acknowledged[message.topic()] += 1  # type: ignore[attr-defined]


def incidents_within(seconds: float) -> tuple[operations.Incident, ...]:
    """Incidents of the services, repeated each hour of their time; scaled down to fit a shorter run."""
    length = min(HOUR, seconds * 1000)
    return tuple(
        operations.Incident(
            each.service,
            int(hour * HOUR + each.begin * length / HOUR),
            int(hour * HOUR + each.end * length / HOUR),
        )
        for hour in range(max(1, math.ceil(seconds * 1000 / HOUR)))
        for each in operations.INCIDENTS
    )
