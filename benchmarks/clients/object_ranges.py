"""Throughput of obstore alone: no broker, no checksum, no cache.

    echo '{"endpoint": ...}' | python -m benchmarks.clients.object_ranges get --bucket B --key K --bytes N
    echo '{"endpoint": ...}' | python -m benchmarks.clients.object_ranges relay --bucket B --key K --bytes N
    echo '{"endpoint": ...}' | python -m benchmarks.clients.object_ranges put --bucket B --key K --bytes N [--rate R]

The store options are read from standard input, because one of them is a secret. Ranges of 4 MiB, four at a time; parts
of 16 MiB, two at a time: the same requests as a broker's. `relay` sends the ranges, in order, over a connection to
another process, which reads them as a client would: the minimum work between a store and a client. With a rate (bytes
per second), `put` uploads object after object until standard input is closed.
"""

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections import deque
from typing import Any

import obstore
from obstore.store import S3Store

RANGE, AT_ONCE = 4 << 20, 4
PART, PARTS_AT_ONCE = 16 << 20, 2
PIECE = 4 << 20


async def get(store: Any, key: str, size: int) -> int:
    """Read the object; return the number of bytes."""
    starts = iter(range(0, size, RANGE))

    async def take_turns() -> int:
        came = 0
        for start in starts:
            end = min(start + RANGE, size)
            came += len(await obstore.get_range_async(store, key, start=start, end=end))
        return came

    return sum(await asyncio.gather(*(take_turns() for _ in range(AT_ONCE))))


async def relay(store: Any, key: str, size: int) -> int:
    """Same as `get`, and send each range to another process."""
    ranges = [(start, min(start + RANGE, size)) for start in range(0, size, RANGE)]
    in_progress: deque[Any] = deque()
    loop = asyncio.get_running_loop()
    with _receiver(len(ranges)) as connection:
        connection.setblocking(False)
        for number, (start, end) in enumerate(ranges):
            for byte_range in ranges[number + len(in_progress) : number + AT_ONCE]:
                in_progress.append(
                    obstore.get_range_async(store, key, start=byte_range[0], end=byte_range[1])
                )
            data = await in_progress.popleft()
            await loop.sock_sendall(connection, (end - start).to_bytes(4, "big"))
            await loop.sock_sendall(connection, memoryview(data))
        await loop.sock_recv(connection, 1)  # until the receiver has everything
    return size


def _receiver(frames: int) -> socket.socket:
    """A connection to a process that reads that many frames and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [sys.executable, "-m", "benchmarks.clients.log_reader", "--port", server.getsockname()[1]]
        subprocess.Popen([*map(str, command), "--frames", str(frames)])
        return server.accept()[0]


async def put(store: Any, key: str, size: int, rate: float = 0.0) -> int:
    piece = os.urandom(PIECE)
    begin, sent = time.perf_counter(), 0
    writer = obstore.open_writer_async(store, key, buffer_size=PART, max_concurrency=PARTS_AT_ONCE)
    async with writer:
        for _ in range(size // PIECE):
            await writer.write(piece)
            sent += PIECE
            if rate:
                await asyncio.sleep(max(begin + sent / rate - time.perf_counter(), 0))
    return sent


async def put_until_told(store: Any, key: str, size: int, rate: float) -> int:
    stdin_closed = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    sent = 0
    print("begun", flush=True)
    while not stdin_closed.done():
        sent += await put(store, f"{key}-{sent}", size, rate)
    return sent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["get", "relay", "put"])
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--bytes", type=int, required=True)
    parser.add_argument("--rate", type=float, default=0.0)
    options = parser.parse_args()
    config = json.loads(sys.stdin.readline())
    store = S3Store(options.bucket, config=config, client_options={"allow_http": True})
    begin, cpu = time.perf_counter(), time.process_time()
    if options.rate:
        work = put_until_told(store, options.key, options.bytes, options.rate)
    else:
        work = {"get": get, "relay": relay, "put": put}[options.what](store, options.key, options.bytes)
    done = asyncio.run(work)
    seconds = time.perf_counter() - begin
    figures = {
        "mb_per_second": done / seconds / 1e6,
        "cpu_per_gib": (time.process_time() - cpu) / done * (1 << 30),
    }
    print(json.dumps(figures), flush=True)
    os._exit(0)  # obstore 0.12.1 sometimes aborts (signal 6) during interpreter exit


if __name__ == "__main__":
    main()
