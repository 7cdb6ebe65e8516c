"""Tests of `barnabas bench`: produce, consume, end-to-end latency and group operations, on one cluster each."""

from __future__ import annotations

import asyncio
import os
import secrets
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from barnabas.cli.bench.latencies import Latencies
from barnabas.cli.output import ProgressBar
from barnabas.client import (
    Client,
    ClientError,
    ConsumedRecord,
    Consumer,
    FetchSettings,
    Producer,
    ProducerSettings,
)
from barnabas.client.admin import BROKER_DEFAULT, create_topic, delete_topics
from barnabas.client.consuming import GroupConsumer
from barnabas.client.offsets import Start, resolve_start
from barnabas.client.producing import RecordDelivery
from barnabas.common.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.client.security import ClientSecurity

PROGRESS_EVERY = 1000  # records between two updates of the progress bar
SAMPLE_EVERY = 100  # sampling interval of acknowledgement times, in records
IDLE_SECONDS = 5.0  # without records for this time, a consumer is at the end
LATENCY_SECONDS = 5.0  # duration of the end-to-end test
COMMITS = 200
SETTLE_SECONDS = 60.0  # timeout of one rebalance

SENT_AT = struct.Struct(">d")  # the first bytes of a value of the end-to-end test


@dataclass(frozen=True)
class Workload:
    topic: str
    records: int
    size: int
    rate: float | None
    """Records per second of `produce`; None: as many as possible."""
    latency_rate: float
    members: int
    settings: ProducerSettings


@dataclass(frozen=True)
class BenchTopic:
    """The topic of one run, deleted at its end."""

    partitions: int
    replication_factor: int | None


@dataclass
class Measurement:
    """One test of one cluster. `latencies` are by their name, such as `acknowledged`."""

    test: str
    records: int
    bytes: int
    seconds: float
    latencies: dict[str, Latencies] = field(default_factory=dict)

    @property
    def records_per_second(self) -> float:
        return self.records / max(self.seconds, 1e-9)

    @property
    def bytes_per_second(self) -> float:
        return self.bytes / max(self.seconds, 1e-9)

    def as_json(self) -> dict[str, Any]:
        return {
            "test": self.test,
            "records": self.records,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "records_per_second": round(self.records_per_second, 1),
            "bytes_per_second": round(self.bytes_per_second, 1),
            "latency_ms": {name: latencies.milliseconds() for name, latencies in self.latencies.items()},
        }


async def produce(client: Client, load: Workload) -> Measurement:
    """Write random records; time a sample of them until they are acknowledged."""
    await client.topics([load.topic])
    latencies = Latencies()
    start = time.monotonic()
    async with Producer(client, load.settings) as producer:
        with ProgressBar("produce", load.records, unit="records") as progress:
            samples = await _send_all(producer, load, latencies, progress)
            await producer.flush()
        seconds = time.monotonic() - start
        await asyncio.gather(*samples)
    return Measurement(
        "produce", load.records, load.records * load.size, seconds, {"acknowledged": latencies}
    )


async def _send_all(
    producer: Producer, load: Workload, latencies: Latencies, progress: ProgressBar
) -> list[asyncio.Task[None]]:
    """Returns the samples that are still in progress."""
    samples = []
    value = os.urandom(load.size)
    start = time.monotonic()
    for number in range(load.records):
        if load.rate is not None:
            await _sleep_until(start + number / load.rate)
        delivery = await producer.enqueue(load.topic, value)
        if number % SAMPLE_EVERY == 0:
            samples.append(asyncio.create_task(_time_delivery(delivery, time.monotonic(), latencies)))
        if number % PROGRESS_EVERY == 0:
            progress.reached(number)
    return samples


async def _sleep_until(time_text: float) -> None:
    ahead = time_text - time.monotonic()
    if ahead > 0:
        await asyncio.sleep(ahead)


async def _time_delivery(delivery: RecordDelivery, start: float, latencies: Latencies) -> None:
    try:
        await delivery
    except (ClientError, KafkaError):
        return  # flush() raises it; an interrupted measurement waits for no samples
    latencies.add(time.monotonic() - start)


async def consume(client: Client, load: Workload) -> Measurement:
    """Read the topic from its beginning."""
    positions = await resolve_start(client, await client.partitions([load.topic]), Start("beginning"))
    read = read_bytes = 0
    start = last = time.monotonic()
    async with Consumer(client, positions) as consumer:
        with ProgressBar("consume", load.records, unit="records") as progress:
            while read < load.records:
                records = await consumer.poll(IDLE_SECONDS)
                if not records:
                    break
                last = time.monotonic()
                read += len(records)
                read_bytes += sum(len(record.key or b"") + len(record.value or b"") for record in records)
                progress.reached(read)
    return Measurement("consume", read, read_bytes, last - start)


async def latency(client: Client, load: Workload) -> Measurement:
    """Send single records at a steady rate, each without delay, and time them until a consumer has them."""
    wanted = max(int(load.latency_rate * LATENCY_SECONDS), 1)
    size = max(load.size, SENT_AT.size)
    latencies = Latencies()
    positions = await resolve_start(client, await client.partitions([load.topic]), Start("end"))
    at_once = ProducerSettings(load.settings.acks, load.settings.compression, linger=0)
    start = time.monotonic()
    async with Consumer(client, positions) as consumer, Producer(client, at_once) as producer:
        with ProgressBar("latency", wanted, unit="records") as progress:
            sending = asyncio.create_task(_send_steadily(producer, load, wanted, size))
            try:
                while latencies.count < wanted:
                    records = await consumer.poll(IDLE_SECONDS)
                    if not records and sending.done():
                        break
                    _add_ages(records, latencies)
                    progress.reached(latencies.count)
                await sending
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
    seconds = time.monotonic() - start
    return Measurement("latency", latencies.count, latencies.count * size, seconds, {"end to end": latencies})


async def _send_steadily(producer: Producer, load: Workload, wanted: int, size: int) -> None:
    padding = os.urandom(size - SENT_AT.size)
    start = time.monotonic()
    for number in range(wanted):
        await _sleep_until(start + number / load.latency_rate)
        await producer.enqueue(load.topic, SENT_AT.pack(time.monotonic()) + padding)
    await producer.flush()


def _add_ages(records: list[ConsumedRecord], latencies: Latencies) -> None:
    now = time.monotonic()
    for record in records:
        if record.value is not None and len(record.value) >= SENT_AT.size:
            latencies.add(now - SENT_AT.unpack_from(record.value)[0])


async def groups(client: Client, load: Workload) -> Measurement:
    """Members join a group one after the other, commit offsets, and leave: time each until the group has settled."""
    joins, commits = Latencies(), Latencies()
    group = f"{load.topic}-group"
    start = time.monotonic()
    members: list[GroupConsumer] = []
    try:
        with ProgressBar("groups", load.members + COMMITS, unit="steps") as progress:
            for number in range(load.members):
                began = time.monotonic()
                member = GroupConsumer(client, group, [load.topic], Start("beginning"), FetchSettings())
                await member.open()
                members.append(member)
                await _until_settled(members)
                joins.add(time.monotonic() - began)
                progress.reached(number + 1)
            await _commit_offsets(client, load, group, commits, progress)
    finally:
        for member in members:
            await member.close()
    seconds = time.monotonic() - start
    return Measurement("groups", COMMITS, 0, seconds, {"member joined": joins, "offset commit": commits})


async def _until_settled(members: list[GroupConsumer]) -> None:
    async with asyncio.timeout(SETTLE_SECONDS):
        while not all(member.is_settled for member in members):
            await asyncio.gather(*(member.poll(0.01) for member in members))


async def _commit_offsets(
    client: Client, load: Workload, group: str, latencies: Latencies, progress: ProgressBar
) -> None:
    """Commits as an administrator does, in a group without members, so that no rebalance is in between."""
    from barnabas.client.groups import commit_offsets

    tp = (await client.partitions([load.topic]))[0]
    for number in range(COMMITS):
        began = time.monotonic()
        await commit_offsets(client, f"{group}-commits", {tp: number})
        latencies.add(time.monotonic() - began)
        progress.reached(load.members + number)


TESTS: dict[str, Callable[[Client, Workload], Awaitable[Measurement]]] = {
    "produce": produce,
    "consume": consume,
    "latency": latency,
    "groups": groups,
}


async def run_tests(
    clusters: Mapping[str, ClientSecurity],
    tests: Sequence[str],
    load: Workload,
    new_topic: BenchTopic | None,
    show: Callable[[Mapping[str, Measurement]], None],
) -> list[dict[str, Measurement]]:
    """Run each test on each cluster in turn. `show` gets the results of a test when all clusters have run it."""
    results = []
    async with AsyncExitStack() as stack:
        clients = {
            address: await stack.enter_async_context(
                Client(address, client_id="barnabas-bench", security=security)
            )
            for address, security in clusters.items()
        }
        if new_topic is not None:
            load = replace(load, topic=f"barnabas-bench-{secrets.token_hex(4)}")
            for client in clients.values():
                await stack.enter_async_context(_temporary_topic(client, load.topic, new_topic))
        for test in tests:
            results.append({address: await TESTS[test](client, load) for address, client in clients.items()})
            show(results[-1])
    return results


@asynccontextmanager
async def _temporary_topic(client: Client, name: str, topic: BenchTopic) -> AsyncIterator[None]:
    factor = BROKER_DEFAULT if topic.replication_factor is None else topic.replication_factor
    await create_topic(client, name, partitions=topic.partitions, replication_factor=factor)
    try:
        yield
    finally:
        await delete_topics(client, [name])
