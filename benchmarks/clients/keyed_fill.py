"""Fills a partition with records that repeatedly overwrite each other, as in a compacted topic.

    python -m benchmarks.clients.keyed_fill --port P --topic T --bytes 268435456 --record-bytes 100

Keys are drawn at random (the same sequence for every broker), so that hardly any batch is kept or removed as a whole.
"""

import argparse
import json
import random
from collections.abc import Iterator

from benchmarks import wire
from benchmarks.clients.fill import send_batches

UPDATES_PER_KEY, BATCH_BYTES = 20, 60_000


def batches_of(size: int, record_bytes: int) -> Iterator[bytes]:
    """Batches of about that total size, in which each key occurs about 20 times."""
    choose = random.Random(1).choices
    keys = [b"key-%08d" % number for number in range(1 + size // record_bytes // UPDATES_PER_KEY)]
    records = BATCH_BYTES // record_bytes
    while size > 0:
        batch = wire.keyed_batch(choose(keys, k=records), record_bytes)
        size -= len(batch)
        yield batch


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--bytes", type=int, required=True)
    parser.add_argument("--record-bytes", type=int, default=100)
    options = parser.parse_args()
    batches = batches_of(options.bytes, options.record_bytes)
    send_batches(options.host, options.port, options.topic, batches)
    print(json.dumps({"bytes": options.bytes}))


if __name__ == "__main__":
    main()
