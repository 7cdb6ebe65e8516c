"""Fills the console's log archive, and measures searches with histogram and facets.

python -m benchmarks.clients.console.log_search --fill FOLDER --lines 10000000
python -m benchmarks.clients.console.log_search --search FOLDER

The first command also writes the same lines to a plain file, for grep. The second prints seconds and CPU seconds, the
median of five: for a word that is in every twentieth line, and for a regular expression.
"""

import argparse
import asyncio
import json
import random
import statistics
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from barnabas.client.cluster import Client
from barnabas.common.types import TopicPartition
from barnabas.records.columnar.decode import HEADERS, TIMESTAMP, RecordColumns
from barnabas.services.console.logs.archive import LogArchive
from barnabas.services.console.logs.lines import rows_of
from barnabas.services.console.logs.query import LineFilter, read_text
from barnabas.services.console.logs.service import LogTopics
from barnabas.services.console.logs.store import LogStoreSettings

PIECE, PIECES = 8192, 16
DAY_MS = 86_400_000
WORD = "timeout"
PATTERN = r"user\d*7 .* took 99\d ms"
ROUNDS = 5
SETTINGS = LogStoreSettings(keep_seconds=1e9)


def lines_of(rng: random.Random) -> list[bytes]:
    return [_line(rng) for _ in range(PIECE)]


def _line(rng: random.Random) -> bytes:
    level = rng.choices(("INFO", "DEBUG", "WARN", "ERROR"), (80, 10, 7, 3))[0]
    what = "payment timeout" if rng.random() < 0.05 else "request served"
    return (
        f"{level} [pool-{rng.randrange(16)}] shop.web.Checkout {what} for user{rng.randrange(10_000)} "
        f"session={rng.getrandbits(64):016x} path=/shoes/{rng.randrange(500)} took {rng.randrange(1000)} ms"
    ).encode()


def columns_of(lines: list[bytes], host: bytes, first: int, times: list[int]) -> RecordColumns:
    headers = [{"key": "host", "value": host}, {"key": "path", "value": b"/var/log/shop.log"}]
    return RecordColumns(
        len(lines),
        {
            "offset": pa.array(np.arange(first, first + len(lines))),
            "timestamp": pa.array(np.array(times, np.int64) * 1000).view(TIMESTAMP),
            "key": pa.array([host + b":/var/log/shop.log"] * len(lines), pa.binary()),
            "value": pa.array(lines, pa.binary()),
            "headers": pa.array([headers] * len(lines), HEADERS),
        },
    )


def fill(folder: Path, count: int) -> None:
    """Write one day of log lines from twenty hosts."""
    rng = random.Random(1)
    pieces = [lines_of(rng) for _ in range(PIECES)]
    archive = LogArchive(Client("127.0.0.1:1"), folder / "kept", LogTopics(), SETTINGS)
    start, tp = int(time.time() * 1000) - DAY_MS, TopicPartition("app.logs", 0)
    with (folder / "plain.log").open("wb") as plain:
        for first in range(0, count, PIECE):
            lines = pieces[first // PIECE % PIECES][: count - first]
            times = [start + (first + number) * DAY_MS // count for number in range(len(lines))]
            host = b"web-%d" % (first // PIECE % 20)
            archive.store.add(tp.topic, "id", 0, rows_of(tp, columns_of(lines, host, first, times)))
            if archive.store.is_due:
                archive.store.flush()
            plain.write(b"\n".join(lines) + b"\n")
    archive.store.flush()
    archive.close()


async def measure(folder: Path) -> dict[str, float]:
    archive = LogArchive(Client("127.0.0.1:1"), folder / "kept", LogTopics(), SETTINGS)
    figures: dict[str, float] = {}
    for name, find, is_pattern in (("word", WORD, False), ("pattern", PATTERN, True)):
        line_filter = LineFilter(read_text(find, is_pattern=is_pattern))
        found = await archive.search(line_filter)  # warm-up: reads pages from disk
        seconds, cpu = [], time.process_time()
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            found = await archive.search(line_filter)
            seconds.append(time.perf_counter() - begin)
        assert found.complete
        figures[name] = statistics.median(seconds)
        figures[f"{name}_cpu"] = (time.process_time() - cpu) / ROUNDS
        figures[f"{name}_matched"] = found.matched
    archive.close()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fill", type=Path)
    parser.add_argument("--search", type=Path)
    parser.add_argument("--lines", type=int, default=10_000_000)
    options = parser.parse_args()
    if options.fill is not None:
        fill(options.fill, options.lines)
        print(json.dumps({"lines": options.lines}))
    else:
        print(json.dumps(asyncio.run(measure(options.search))))


if __name__ == "__main__":
    main()
