"""What obstore alone does with an object store: no broker, no checksum, no cache.

    echo '{"endpoint": ...}' | python -m benchmarks.clients.object_ranges get --bucket B --key K --bytes N
    echo '{"endpoint": ...}' | python -m benchmarks.clients.object_ranges put --bucket B --key K --bytes N

Options of the store come on standard input, because one of them is a secret. Ranges of 4 MiB, four at a time; parts of
16 MiB, two at a time: what a broker asks for.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from typing import Any

import obstore
from obstore.store import S3Store

RANGE, AT_ONCE = 4 << 20, 4
PART, PARTS_AT_ONCE = 16 << 20, 2
PIECE = 4 << 20


async def get(store: Any, key: str, size: int) -> int:
    """Returns the bytes that came."""
    starts = iter(range(0, size, RANGE))

    async def take_turns() -> int:
        came = 0
        for start in starts:
            end = min(start + RANGE, size)
            came += len(await obstore.get_range_async(store, key, start=start, end=end))
        return came

    return sum(await asyncio.gather(*(take_turns() for _ in range(AT_ONCE))))


async def put(store: Any, key: str, size: int) -> int:
    piece = os.urandom(PIECE)
    writer = obstore.open_writer_async(store, key, buffer_size=PART, max_concurrency=PARTS_AT_ONCE)
    async with writer:
        for _ in range(size // PIECE):
            await writer.write(piece)
    return size // PIECE * PIECE


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["get", "put"])
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--bytes", type=int, required=True)
    options = parser.parse_args()
    store = S3Store(options.bucket, config=json.load(sys.stdin), client_options={"allow_http": True})
    begin, cpu = time.perf_counter(), time.process_time()
    done = asyncio.run({"get": get, "put": put}[options.what](store, options.key, options.bytes))
    seconds = time.perf_counter() - begin
    figures = {
        "mb_per_second": done / seconds / 1e6,
        "cpu_per_gib": (time.process_time() - cpu) / done * (1 << 30),
    }
    print(json.dumps(figures), flush=True)
    os._exit(0)  # obstore 0.12.1 aborts the process in one of some exits (signal 6), after all is done


if __name__ == "__main__":
    main()
