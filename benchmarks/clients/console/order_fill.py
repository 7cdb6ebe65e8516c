"""Fills a topic with JSON orders of 242 bytes, with a key and a header, evenly over its partitions.

    python -m benchmarks.clients.console.order_fill --port P --topic T --partitions 4 --records 800000

One order in 100,000 contains the search term.
"""

import argparse
import json
import socket
import time
from collections.abc import Iterator

from barnabas.records.builder import build_batch
from barnabas.records.compression import CODEC_BY_NAME
from barnabas.records.record import Record
from benchmarks import wire

VALUE_BYTES = 242
PER_BATCH = 500
NEEDLE, EVERY = "needle-4711", 100_000


def order(number: int) -> bytes:
    country = ("DE", "AT", "FR")[number % 3]
    note = NEEDLE if number % EVERY == EVERY // 2 else "delivered by noon"
    head = (
        f'{{"id":{number},"user":"u{number * 7919 % 100_000:05}","country":"{country}","amount":{number % 1000 / 4},'
        f'"status":"paid","note":"{note}","agent":"'
    )
    return (head + "x" * (VALUE_BYTES - len(head) - 2) + '"}').encode()


def batches(records: int, codec: str) -> Iterator[bytes]:
    began = int(time.time() * 1000) - records // 10
    for first in range(0, records, PER_BATCH):
        rows = [
            Record(
                index,
                began + (first + index) // 10,
                b"key-%d" % ((first + index) % 1000),
                order(first + index),
                (("source", b"shop"),),
            )
            for index in range(PER_BATCH)
        ]
        yield bytes(build_batch(rows, compression=CODEC_BY_NAME[codec]))


def fill(port: int, topic: str, partitions: int, records: int, codec: str) -> int:
    written = 0
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        stream = connection.makefile("rb")
        for number, batch in enumerate(batches(records, codec)):
            connection.sendall(wire.produce_frame(topic, number % partitions, batch))
            prefix = stream.read(4)
            error = wire.produce_error(topic, prefix + stream.read(int.from_bytes(prefix, "big")))
            if error:
                raise RuntimeError(f"the broker answered with error {error}")
            written += PER_BATCH
    return written


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--codec", default="none")
    options = parser.parse_args()
    written = fill(options.port, options.topic, options.partitions, options.records, options.codec)
    print(json.dumps({"records": written}))


if __name__ == "__main__":
    main()
