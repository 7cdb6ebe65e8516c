"""Pauses of consumers while another member joins their group.

    python -m benchmarks.clients.pauses --port P --topic T --partitions 12 --group G --protocol classic|consumer

Three consumers (librdkafka, its defaults) share a topic whose partitions all get records continuously. One of them is
slow: it spends two seconds on each record. A fourth joins. The figure is the longest time without a record for either
of the two others: they keep partitions throughout and have no reason to pause.
"""

import argparse
import itertools
import json
import threading
import time
from collections.abc import Callable

from confluent_kafka import Consumer, Producer

_CONSUMERS = 3
_EVERY_SECONDS = 0.01
_BUSY_SECONDS = 2.0
_AFTERWARDS_SECONDS = 2.0
_TIMEOUT_SECONDS = 90.0


class Reader(threading.Thread):
    """Records the times at which it gets records."""

    def __init__(self, options: argparse.Namespace, stop: threading.Event, busy_seconds: float = 0.0) -> None:
        super().__init__(daemon=True)
        self._options = options
        self._stopping = stop
        self._busy_seconds = busy_seconds
        self.moments: list[float] = []
        self.start()

    def run(self) -> None:
        options = self._options
        consumer = Consumer(
            {
                "bootstrap.servers": f"127.0.0.1:{options.port}",
                "group.id": options.group,
                "group.protocol": options.protocol,
                "auto.offset.reset": "latest",
                "log_level": 0,
            }
        )
        consumer.subscribe([options.topic])
        while not self._stopping.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.moments.append(time.monotonic())
                self._stopping.wait(self._busy_seconds)
        consumer.close()

    def reads(self) -> bool:
        return bool(self.moments) and time.monotonic() - self.moments[-1] < 0.5

    def longest_pause(self, since: float, until: float) -> float:
        timestamps = [since, *(timestamp for timestamp in self.moments if since <= timestamp <= until), until]
        return max(after - before for before, after in itertools.pairwise(timestamps))


class Writer(threading.Thread):
    """Writes a record to every partition, repeatedly."""

    def __init__(self, options: argparse.Namespace, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._options = options
        self._stopping = stop
        self.start()

    def run(self) -> None:
        producer = Producer({"bootstrap.servers": f"127.0.0.1:{self._options.port}", "linger.ms": 0})
        while not self._stopping.wait(_EVERY_SECONDS):
            for partition in range(self._options.partitions):
                producer.produce(self._options.topic, b"x", partition=partition)
            producer.poll(0)
        producer.flush(10)


def measure(options: argparse.Namespace) -> float:
    stop = threading.Event()
    writer = Writer(options, stop)
    busy = Reader(options, stop, _BUSY_SECONDS)
    readers = [Reader(options, stop) for _ in range(_CONSUMERS - 1)]
    try:
        _wait_until(lambda: bool(busy.moments) and all(reader.reads() for reader in readers))
        time.sleep(_AFTERWARDS_SECONDS)
        begin = time.monotonic()
        newcomer = Reader(options, stop)
        _wait_until(newcomer.reads)
        time.sleep(_AFTERWARDS_SECONDS)
        return max(reader.longest_pause(begin, time.monotonic()) for reader in readers)
    finally:
        stop.set()
        for thread in (writer, busy, *readers):
            thread.join(30)


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError("the group does not settle")
        time.sleep(0.01)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--protocol", choices=("classic", "consumer"), required=True)
    print(json.dumps({"ms": measure(parser.parse_args()) * 1000}))


if __name__ == "__main__":
    main()
