"""Fills a partition with a log of a given size, as fast as one connection allows.

python -m benchmarks.clients.fill --port P --topic T --bytes 4294967296
"""

import argparse
import itertools
import json
import socket
from collections.abc import Callable, Iterable

from benchmarks import wire

RECORD_BYTES, RECORDS_PER_BATCH = 10_000, 6  # batches of about 60 KB
_IN_FLIGHT = 8


def fill(host: str, port: int, topic: str, size: int) -> int:
    """Fill the partition; return the number of records written."""
    batch = wire.record_batch(RECORD_BYTES, RECORDS_PER_BATCH)
    batches = max(1, size // len(batch))
    send_batches(host, port, topic, itertools.repeat(batch, batches))
    return batches * RECORDS_PER_BATCH


def send_batches(host: str, port: int, topic: str, batches: Iterable[bytes]) -> None:
    """Send one request per batch, several in flight, and check every response."""
    waiting = 0
    with socket.create_connection((host, port), timeout=60) as connection:
        stream = connection.makefile("rb")
        for batch in batches:
            connection.sendall(wire.produce_frame(topic, 0, batch))
            waiting += 1
            if waiting == _IN_FLIGHT:
                _check(topic, _next_answer(stream.read))
                waiting -= 1
        for _ in range(waiting):
            _check(topic, _next_answer(stream.read))


def _next_answer(read: Callable[[int], bytes]) -> bytes:
    prefix = read(4)
    return prefix + read(int.from_bytes(prefix, "big"))


def _check(topic: str, answer: bytes) -> None:
    error = wire.produce_error(topic, answer)
    if error:
        raise RuntimeError(f"the broker answered with error {error}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--bytes", type=int, required=True)
    options = parser.parse_args()
    print(json.dumps({"records": fill(options.host, options.port, options.topic, options.bytes)}))


if __name__ == "__main__":
    main()
