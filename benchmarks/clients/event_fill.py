"""Fills a topic with small JSON events, evenly over its partitions, as fast as one connection allows.

python -m benchmarks.clients.event_fill --port P --topic T --partitions 6 --records 10000000 --codec lz4
"""

import argparse
import json
import socket
import time

from barnabas.records.builder import build_batch
from barnabas.records.compression import CODEC_BY_NAME
from barnabas.records.record import Record
from benchmarks import wire

VALUE_BYTES = 100
EVENTS_PER_BATCH = 5000
PAGES = 50
_IN_FLIGHT = 4


def event(number: int) -> bytes:
    """An event of a web shop: {"user": ..., "page": ..., "ms": ..., "agent": ...}, 100 bytes."""
    page = f"/page/{number % PAGES:02}"
    head = f'{{"user":"u{number * 7919 % 100_000:05}","page":"{page}","ms":{number % 1000},"agent":"'
    return (head + "x" * (VALUE_BYTES - len(head) - 2) + '"}').encode()


def event_batch(codec: str) -> bytes:
    now = int(time.time() * 1000)
    records = [Record(index, now + index // 100, None, event(index)) for index in range(EVENTS_PER_BATCH)]
    return bytes(build_batch(records, compression=CODEC_BY_NAME[codec]))


def fill(host: str, port: int, topic: str, partitions: int, records: int, codec: str) -> int:
    """Fill the topic; return the number of records written, a whole number of batches."""
    batch = event_batch(codec)
    batches = max(partitions, records // EVENTS_PER_BATCH)
    waiting = 0
    with socket.create_connection((host, port), timeout=60) as connection:
        stream = connection.makefile("rb")
        for number in range(batches):
            connection.sendall(wire.produce_frame(topic, number % partitions, batch))
            waiting += 1
            if waiting == _IN_FLIGHT or number == batches - 1:
                for _ in range(waiting):
                    prefix = stream.read(4)
                    error = wire.produce_error(topic, prefix + stream.read(int.from_bytes(prefix, "big")))
                    if error:
                        raise RuntimeError(f"the broker answered with error {error}")
                waiting = 0
    return batches * EVENTS_PER_BATCH


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--codec", default="none")
    options = parser.parse_args()
    written = fill(
        options.host, options.port, options.topic, options.partitions, options.records, options.codec
    )
    print(json.dumps({"records": written}))


if __name__ == "__main__":
    main()
