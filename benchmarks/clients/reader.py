"""Reads a partition from its beginning, repeatedly, until standard input is closed.

    python -m benchmarks.clients.reader --bootstrap H:P --topic T --log-dir DIR [--cold]

Cold: the log files are dropped from the page cache before each pass. Hot: they are read into it once.
"""

import argparse
import json
import os
import select
import sys
import time
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

_CHUNK = 1 << 20


def drop_from_page_cache(log_dir: Path) -> None:
    """Write back dirty pages, then drop all pages of the log: only clean ones can be dropped."""
    for path in log_dir.glob("*.log"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_into_page_cache(log_dir: Path) -> None:
    for path in log_dir.glob("*.log"):
        with path.open("rb") as file:
            while file.read(_CHUNK):
                pass


def read_until_stdin_closes(bootstrap: str, topic: str, log_dir: Path, cold: bool) -> dict[str, float]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    begin, size, passes = time.perf_counter(), 0, 0
    while not _stdin_closed():
        if cold:
            drop_from_page_cache(log_dir)
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        size += _one_pass(consumer)
        passes += 1
    consumer.close()
    seconds = time.perf_counter() - begin
    return {"mb_per_second": size / seconds / 1e6, "passes": float(passes)}


def _one_pass(consumer: Consumer) -> int:
    size = 0
    while not _stdin_closed():
        for message in consumer.consume(500, timeout=0.2):
            if message.error() is not None:  # end of partition
                return size
            size += len(message.value() or b"")
    return size


def _stdin_closed() -> bool:
    readable, _, _ = select.select([sys.stdin], [], [], 0)
    return bool(readable)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--log-dir", type=Path, required=True)
    parser.add_argument("--cold", action="store_true")
    options = parser.parse_args()
    if not options.cold:
        read_into_page_cache(options.log_dir)
    print("reading", flush=True)
    print(
        json.dumps(read_until_stdin_closes(options.bootstrap, options.topic, options.log_dir, options.cold))
    )


if __name__ == "__main__":
    main()
