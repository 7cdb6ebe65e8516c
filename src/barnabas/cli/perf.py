"""`barnabas perf`: measure produce and consume throughput with Barnabas's client."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Output,
    OutputFormat,
    complete_topic,
    with_client,
)
from barnabas.cli.output import ProgressBar, show_json, size
from barnabas.cli.records.produce import Acks, Compression

if TYPE_CHECKING:
    import asyncio

    from barnabas.client import Client, Producer, ProducerSettings
    from barnabas.client.producing import RecordDelivery


# -- Latencies in little room: counts in buckets that are never more than a hundredth wide -------------

_GROWTH = math.log(1.01)


class Latencies:
    """Any number of measurements; percentiles are right to one in a hundred, the largest exactly."""

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self.count = 0
        self.total = 0.0
        self.largest = 0.0

    def add(self, seconds: float, times: int = 1) -> None:
        self._buckets[math.ceil(math.log(max(seconds, 1e-6)) / _GROWTH)] += times
        self.count += times
        self.total += seconds * times
        self.largest = max(self.largest, seconds)

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """The latency that this percentage of the measurements does not exceed."""
        wanted, seen = self.count * percent / 100, 0
        for bucket, times in sorted(self._buckets.items()):
            seen += times
            if seen >= wanted:
                return min(math.exp(bucket * _GROWTH), self.largest)
        return self.largest

    def milliseconds(self) -> dict[str, float]:
        """The figures that people compare."""
        figures = {
            f"p{percent:g}".replace(".", "_"): self.percentile(percent) for percent in (50, 95, 99, 99.9)
        }
        figures |= {"mean": self.mean, "max": self.largest}
        return {name: round(seconds * 1000, 3) for name, seconds in figures.items()}


app = typer.Typer(help="Measure how fast a broker is.", no_args_is_help=True)

PROGRESS_EVERY = 1000  # records between two checks of the clock and updates of the progress bar
SAMPLE_EVERY = 100  # every so many records, one is timed until it is acknowledged
IDLE_SECONDS = 5.0  # a consumer that has got nothing for so long is at the end

Topic = Annotated[
    str, typer.Argument(metavar="TOPIC", help="An existing topic.", autocompletion=complete_topic)
]
Records = Annotated[int, typer.Option("--records", "-n", min=1, help="How many.")]


@dataclass
class Load:
    topic: str
    records: int
    size: int
    rate: float | None
    settings: ProducerSettings


@app.command()
def produce(
    topic: Topic,
    records: Records = 100_000,
    record_size: Annotated[int, typer.Option("--size", "-s", min=0, help="Bytes of a value.")] = 100,
    rate: Annotated[
        float | None, typer.Option("--rate", "-r", min=0.1, help="Records a second [all].")
    ] = None,
    acks: Annotated[Acks, typer.Option(help="Who must have a record before it counts as sent.")] = Acks.ALL,
    compression: Annotated[
        Compression, typer.Option("--compression", "-z", help="Of batches.")
    ] = Compression.NONE,
    batch_size: Annotated[int, typer.Option(min=1, help="Bytes of a batch.")] = 64 * 1024,
    linger_ms: Annotated[float, typer.Option(min=0, help="How long a batch waits for more records.")] = 5.0,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Write random records as fast as possible, or at a rate, and show rate and latency.

    Examples:

      barnabas perf produce speed-test --records 1000000 --size 100

      barnabas perf produce speed-test --records 50000 --rate 5000 --acks 1
    """
    from barnabas.client import ProducerSettings

    settings = ProducerSettings(
        acks=acks.number, compression=compression, batch_bytes=batch_size, linger=linger_ms / 1000
    )
    load = Load(topic, records, record_size, rate, settings)
    _show(with_client(bootstrap, lambda client: _produce(client, load)), output)


@app.command()
def consume(
    topic: Topic,
    records: Records = 100_000,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Read a topic from its beginning as fast as possible and show the rate.

    Example:

      barnabas perf consume speed-test --records 1000000
    """
    _show(with_client(bootstrap, lambda client: _consume(client, topic, records)), output)


async def _produce(client: Client, load: Load) -> dict[str, Any]:
    import asyncio

    from barnabas.client import Producer

    await client.topics([load.topic])
    latencies = Latencies()
    start = time.monotonic()
    async with Producer(client, load.settings) as producer:
        with ProgressBar("writing", load.records, unit="records") as progress:
            samples = await _send_all(producer, load, latencies, progress)
            await producer.flush()
        seconds = time.monotonic() - start
        await asyncio.gather(*samples)
    return _result(load.records, load.records * load.size, seconds, latencies)


async def _send_all(
    producer: Producer, load: Load, latencies: Latencies, progress: ProgressBar
) -> list[asyncio.Task[None]]:
    """Returns the measurements that are still in progress."""
    import asyncio

    samples = []
    value = os.urandom(load.size)
    start = time.monotonic()
    for number in range(load.records):
        if load.rate is not None:
            await _wait_until(start + number / load.rate)
        delivery = await producer.enqueue(load.topic, value)
        if number % SAMPLE_EVERY == 0:
            samples.append(asyncio.create_task(_time(delivery, time.monotonic(), latencies)))
        if number % PROGRESS_EVERY == 0:
            progress.reached(number)
    return samples


async def _wait_until(moment: float) -> None:
    import asyncio

    ahead = moment - time.monotonic()
    if ahead > 0:
        await asyncio.sleep(ahead)


async def _time(delivery: RecordDelivery, start: float, latencies: Latencies) -> None:
    await delivery
    latencies.add(time.monotonic() - start)


async def _consume(client: Client, topic: str, wanted: int) -> dict[str, Any]:
    from barnabas.client import Consumer
    from barnabas.client.offsets import Start, resolve_start

    positions = await resolve_start(client, await client.partitions([topic]), Start("beginning"))
    read = read_bytes = 0
    start = last = time.monotonic()
    async with Consumer(client, positions) as consumer:
        with ProgressBar("reading", wanted, unit="records") as progress:
            while read < wanted:
                records = await consumer.poll(IDLE_SECONDS)
                if not records:
                    break
                last = time.monotonic()
                read += len(records)
                read_bytes += sum(len(record.key or b"") + len(record.value or b"") for record in records)
                progress.reached(read)
    return _result(read, read_bytes, last - start, None)


def _result(records: int, amount: int, seconds: float, latencies: Latencies | None) -> dict[str, Any]:
    seconds = max(seconds, 1e-9)
    result: dict[str, Any] = {
        "records": records,
        "bytes": amount,
        "seconds": round(seconds, 3),
        "records_per_second": round(records / seconds, 1),
        "bytes_per_second": round(amount / seconds, 1),
    }
    if latencies is not None:
        result["latency_ms"] = latencies.milliseconds()
    return result


def _show(result: dict[str, Any], output: OutputFormat) -> None:
    if output is OutputFormat.JSON:
        show_json(result)
        return
    print(
        f"{result['records']:,} records, {size(result['bytes'])} in {result['seconds']:,} s: "
        f"{result['records_per_second']:,.0f} records/s, {size(result['bytes_per_second'])}/s"
    )
    if "latency_ms" in result:
        figures = "  ".join(f"{name.replace('_', '.')} {ms:,}" for name, ms in result["latency_ms"].items())
        print(f"latency in ms:  {figures}")
