"""Cost of validating every record: `barnabas.validate.records=all` compared with `batch`.

    python -m benchmarks.validation

Appends batches of 16 KB to a log without writing them, to isolate the loop time per batch that the setting changes.
`all` is measured with the Python walk and, if numba is installed, with the compiled one.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from barnabas.common.files import LocalFileSystem
from barnabas.common.types import TopicPartition
from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import topic_log_config
from barnabas.log.dirs.disk import Disk
from barnabas.log.dirs.placement import create_log
from barnabas.log.log import Log
from barnabas.log.segments.segment_file import OpenSegments
from barnabas.records import walking
from barnabas.records.builder import build_batch
from barnabas.records.compression import Codec
from barnabas.records.record import Record

BATCH_BYTES = 16 * 1024
SIZES = (100, 1000)
CODECS = (Codec.NONE, Codec.LZ4)
NOW = 1_700_000_000_000
ROUNDS, APPENDS = 7, 500
_BASE_OFFSET = bytes(8)


def main() -> None:
    print("record  codec    batch us   all us (Python)   all us (compiled)")
    for size in SIZES:
        for codec in CODECS:
            print(f"{size:6}  {codec.name.lower():5}  {'  '.join(_row(_batch(size, codec)))}")


def _row(batch: bytearray) -> Iterator[str]:
    walking.set_compiled(None)
    yield f"{_microseconds(batch, 'batch'):10.1f}"
    yield f"{_microseconds(batch, 'all'):16.1f}"
    yield f"{_microseconds(batch, 'all'):18.1f}" if walking.load_compiled() else "    numba is not there"


def _microseconds(batch: bytearray, validation: str) -> float:
    """CPU time of one append in the best round, the one with the least interference."""
    with tempfile.TemporaryDirectory() as folder:
        append, data = _log(folder, validation).append_as_leader, memoryview(batch)
        best = float("inf")
        for _ in range(ROUNDS):
            began = time.process_time()
            for _ in range(APPENDS):
                data[:8] = _BASE_OFFSET  # overwritten by the previous append
                append(data, 0, NOW)
            best = min(best, time.process_time() - began)
    return best / APPENDS * 1e6


def _log(folder: str, validation: str) -> Log:
    files = LocalFileSystem()
    log: Any = create_log(
        files,
        folder,
        TopicPartition("measured", 0),
        bytes(16),
        topic_log_config(BrokerConfig.load({}), {"barnabas.validate.records": validation}),
        disk=Disk(files, folder),
        open_segments=OpenSegments(),
        now_ms=NOW,
    )
    log._write = lambda *_: None
    found: Log = log
    return found


def _batch(size: int, codec: Codec) -> bytearray:
    """Words as in a log file, which compress to about a third."""
    source = random.Random(size)
    words = [source.randbytes(4).hex() for _ in range(64)]
    values = (" ".join(source.choices(words, k=size // 9 + 1))[:size].encode() for _ in range(BATCH_BYTES))
    records = [Record(0, NOW, b"key-%d" % number, next(values)) for number in range(BATCH_BYTES // size)]
    return build_batch(records, compression=codec)


if __name__ == "__main__":
    main()
