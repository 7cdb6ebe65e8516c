"""End-to-end latency at a fixed rate, with librdkafka: from `produce()` until a consumer has the record.

    python -m benchmarks.clients.end_to_end --bootstrap H:P --topic T --rate 1000 --seconds 6

Each record contains its produce time. The consumer assigns its partition manually, without a group. With `--read-from`
it reads from another broker, which mirrors the first, and skips existing records.
"""

import argparse
import json
import struct
import threading
import time

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, Producer, TopicPartition

from benchmarks.clients.pacing import at_rate
from benchmarks.clients.percentiles import summary

_WARMUP_RECORDS = 1000  # excludes connecting, metadata and the first fetch
_TIME_BYTES = 8
_GIVE_UP_AFTER_SECONDS = 10.0


class Listener(threading.Thread):
    """Consumes `expected` records and stores the age of each on arrival."""

    def __init__(self, bootstrap: str, topic: str, expected: int, start: int) -> None:
        super().__init__(daemon=True)
        self.latencies: list[float] = []
        self._expected = expected
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
        )
        if start == OFFSET_END:
            start = self._consumer.get_watermark_offsets(TopicPartition(topic, 0), 10)[1]
        self._consumer.assign([TopicPartition(topic, 0, start)])

    def run(self) -> None:
        while len(self.latencies) < self._expected:
            message = self._consumer.poll(_GIVE_UP_AFTER_SECONDS)
            now = time.monotonic_ns()
            if message is None:
                break
            if message.error() is None:
                sent = struct.unpack_from(">q", message.value() or b"")[0]
                self.latencies.append((now - sent) / 1e9)
        self._consumer.close()


def measure(
    bootstrap: str,
    topic: str,
    rate: int,
    seconds: float,
    size: int = 100,
    read_from: str | None = None,
    start: int = OFFSET_BEGINNING,
) -> dict[str, float]:
    records = int(rate * seconds) + _WARMUP_RECORDS
    padding = b"x" * (size - _TIME_BYTES)
    listener = Listener(read_from or bootstrap, topic, records, start)
    listener.start()
    producer = Producer({"bootstrap.servers": bootstrap, "acks": 1, "linger.ms": 0})
    at_rate(
        rate,
        records / rate,
        call=lambda: producer.produce(topic, struct.pack(">q", time.monotonic_ns()) + padding, partition=0),
        between=lambda: producer.poll(0),
    )
    producer.flush(30)
    listener.join(_GIVE_UP_AFTER_SECONDS)
    return summary(listener.latencies[_WARMUP_RECORDS:])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--bytes", type=int, default=100)
    parser.add_argument("--read-from", help="[where it is produced to]")
    parser.add_argument("--from-now", action="store_true")
    options = parser.parse_args()
    start = OFFSET_END if options.from_now else OFFSET_BEGINNING
    where = options.bootstrap, options.topic
    found = measure(*where, options.rate, options.seconds, options.bytes, options.read_from, start)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
