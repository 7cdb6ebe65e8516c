"""Fills a partition with records that keep replacing each other, as a compacted topic gets them.

    python -m benchmarks.clients.keyed_fill --port P --topic T --bytes 268435456

Keys are drawn at random (the same ones for every broker), so that hardly a batch stays or goes as a whole.
"""

import argparse
import json
import random
from collections.abc import Iterator

from benchmarks import wire
from benchmarks.clients.fill import send_batches

KEYS, RECORD_BYTES, RECORDS_PER_BATCH = 100_000, 100, 500


def batches_of(size: int) -> Iterator[bytes]:
    """Batches of about that size together."""
    choose = random.Random(1).choices
    keys = [b"key-%08d" % number for number in range(KEYS)]
    while size > 0:
        batch = wire.keyed_batch(choose(keys, k=RECORDS_PER_BATCH), RECORD_BYTES)
        size -= len(batch)
        yield batch


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--bytes", type=int, required=True)
    options = parser.parse_args()
    send_batches(options.host, options.port, options.topic, batches_of(options.bytes))
    print(json.dumps({"bytes": options.bytes}))


if __name__ == "__main__":
    main()
