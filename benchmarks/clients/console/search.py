"""Measures the console's search on a topic filled by `order_fill`, with its own process pool.

    python -m benchmarks.clients.console.search --bootstrap HOST:PORT --topic T --what text

After one uncounted search: seconds of a complete search, milliseconds to the first hit, milliseconds until the
processes answer the next search after a cancelled one, and the peak memory of a process. `--forever` searches until
standard input is closed, for rows that measure something else meanwhile.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import NamedTuple

from barnabas.client.cluster import Client
from barnabas.services.console.scanning.model import Hits, ScanEnd, Search
from barnabas.services.console.scanning.process import Pool
from barnabas.services.console.scanning.scanner import Scanner
from benchmarks.clients.console.order_fill import NEEDLE

_REPEATS = 5
_CEL = "record.value.amount > 249.5 && record.value.id % 50000 == 49999"
_WHAT: dict[str, Callable[[str], Search]] = {
    "text": lambda topic: Search(topic=topic, find=NEEDLE),
    "cel": lambda topic: Search(topic=topic, where=_CEL),
}


class Timed(NamedTuple):
    seconds: float
    first: float
    records: int


async def search(scanner: Scanner, client: Client, requested: Search) -> Timed:
    began, first, records = time.perf_counter(), 0.0, 0
    async with aclosing(scanner.search(client, requested)) as events:
        async for event in events:
            if isinstance(event, Hits):
                first = first or time.perf_counter() - began
            elif isinstance(event, ScanEnd):
                records = event.progress.records
    return Timed(time.perf_counter() - began, first, records)


async def cancel(scanner: Scanner, client: Client, requested: Search, after: float) -> float:
    """Seconds from cancelling a search until the same processes have answered another one."""
    running = asyncio.create_task(search(scanner, client, requested))
    await asyncio.sleep(after)
    began = time.perf_counter()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await search(scanner, client, Search(topic=requested.topic, limit=1))
    return time.perf_counter() - began


def largest_memory(pool: Pool) -> float:
    """Peak memory of any process, in megabytes."""
    lines = [Path(f"/proc/{each.pid}/status").read_text().splitlines() for each in pool.processes]
    sizes = [int(line.split()[1]) for status in lines for line in status if line.startswith("VmHWM")]
    return max(sizes) / 1000


async def measure(options: argparse.Namespace) -> dict[str, float]:
    requested = _WHAT[options.what](options.topic)
    async with Client(options.bootstrap) as client, Pool() as pool:
        scanner = Scanner(pool)
        await search(scanner, client, requested)
        found = [await search(scanner, client, requested) for _ in range(_REPEATS)]
        assert {each.records for each in found} == {options.records}
        middle = sorted(each.seconds for each in found)[_REPEATS // 2]
        return {
            "seconds": middle,
            "first_ms": 1000 * sorted(each.first for each in found)[_REPEATS // 2],
            "cancel_ms": 1000
            * max([await cancel(scanner, client, requested, middle / 4) for _ in range(_REPEATS)]),
            "mb": largest_memory(pool),
        }


async def search_forever(options: argparse.Namespace) -> None:
    requested = _WHAT[options.what](options.topic)
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    async with Client(options.bootstrap) as client, Pool() as pool:
        scanner = Scanner(pool)
        await search(scanner, client, requested)
        print("searching", flush=True)
        while not ended.done():
            await search(scanner, client, requested)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--what", choices=_WHAT, required=True)
    parser.add_argument("--records", type=int, default=0)
    parser.add_argument("--forever", action="store_true")
    options = parser.parse_args()
    if options.forever:
        asyncio.run(search_forever(options))
    else:
        print(json.dumps(asyncio.run(measure(options))))


if __name__ == "__main__":
    main()
