"""Time of one append to and one read from the log, compared with the unavoidable system call.

    python -m benchmarks.micro_log [FOLDER ...]

The floor is one checksum and one pwrite of the same bytes; the difference is the cost of Python.
"""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable

from fastcrc.crc32 import iscsi as crc32c

from barnabas.common.files import LocalFileSystem
from barnabas.common.types import TopicPartition, new_uuid
from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import topic_log_config
from barnabas.log.dirs.disk import Disk
from barnabas.log.dirs.placement import create_log
from barnabas.log.log import Log
from barnabas.log.segments.segment_file import OpenSegments
from barnabas.records.batch import CRC_START
from barnabas.records.builder import build_batch
from barnabas.records.record import Record

ROUNDS = 5
BATCHES = 4000
SIZES = (100, 16 * 1024)
OVERHEAD = 70  # bytes, of a batch with one record


def new_log(folder: str) -> Log:
    fs = LocalFileSystem()
    fs.make_folders(folder)
    return create_log(
        fs,
        folder,
        TopicPartition("bench", 0),
        new_uuid(),
        topic_log_config(BrokerConfig.load({}), {}),
        disk=Disk(fs, folder),
        open_segments=OpenSegments(),
        now_ms=0,
    )


def batches(size: int, now_ms: int, producer: bool) -> list[memoryview]:
    records = [Record(0, now_ms, None, b"x" * (size - OVERHEAD))]
    if not producer:
        return [memoryview(build_batch(records)) for _ in range(BATCHES)]
    return [
        memoryview(build_batch(records, producer_id=7, producer_epoch=0, base_sequence=number))
        for number in range(BATCHES)
    ]


def best(measure: Callable[[int], float]) -> float:
    """Microseconds per operation in the best round, the one with the least interference."""
    return min(measure(number) for number in range(ROUNDS)) / BATCHES * 1e6


def append(folder: str, size: int, producer: bool) -> float:
    def measure(number: int) -> float:
        now_ms = time.time_ns() // 1_000_000
        log, data = new_log(f"{folder}/{size}-{producer}-{number}"), batches(size, now_ms, producer)
        start = time.perf_counter()
        for batch in data:
            log.append_as_leader(batch, 0, now_ms)
        return time.perf_counter() - start

    return best(measure)


def floor(folder: str, size: int) -> float:
    def measure(number: int) -> float:
        data = batches(size, 0, False)
        fd = os.open(f"{folder}/floor-{size}-{number}", os.O_RDWR | os.O_CREAT)
        start, position = time.perf_counter(), 0
        for batch in data:
            crc32c(batch[CRC_START:])
            position += os.pwrite(fd, batch, position)
        elapsed = time.perf_counter() - start
        os.close(fd)
        return elapsed

    return best(measure)


def read(folder: str, at_tail: bool) -> float:
    now_ms = time.time_ns() // 1_000_000
    log = new_log(f"{folder}/read-{at_tail}")
    for batch in batches(100, now_ms, False):
        log.append_as_leader(batch, 0, now_ms)
    end = log.log_end_offset
    offsets = [end - 1 - number % 32 if at_tail else number for number in range(BATCHES)]

    def measure(number: int) -> float:
        start = time.perf_counter()
        for offset in offsets:
            log.read(offset, 1 << 20, end)
        return time.perf_counter() - start

    return best(measure)


def main() -> None:
    print(f"{'folder':<12}{'what':<34}{'us':>8}{'floor us':>10}")
    for path in sys.argv[1:] or ["/dev/shm", tempfile.gettempdir()]:
        folder = tempfile.mkdtemp(dir=path)
        try:
            for size in SIZES:
                minimum = floor(folder, size)
                for producer in (False, True):
                    what = f"append {size} B{', idempotent' if producer else ''}"
                    print(f"{path:<12}{what:<34}{append(folder, size, producer):>8.2f}{minimum:>10.2f}")
            print(f"{path:<12}{'find a slice at the tail':<34}{read(folder, True):>8.2f}")
            print(f"{path:<12}{'find a slice by the index':<34}{read(folder, False):>8.2f}")
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
