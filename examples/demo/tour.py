"""`make tour`: a short tour of the broker, embedded in this process, with a real client.

python -m examples.demo.tour
"""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from barnabas import __version__
from barnabas.client.cluster import Client
from barnabas.client.consumer import Consumer
from barnabas.client.offsets import beginning_offsets, end_offsets, list_offsets
from barnabas.client.opening import ConsumedRecord
from barnabas.client.producer import Producer, ProducerSettings
from barnabas.common.types import TopicPartition
from barnabas.records.batch import iterate_headers
from barnabas.records.compression import Codec
from barnabas.records.record import iterate_records
from barnabas.testing import EmbeddedBroker

TOPIC = "orders"
PARTITIONS = 3
RECORDS = 50_000
SAMPLES = 5
TIMEOUT = 30.0  # seconds; the whole tour takes a few

console = Console(highlight=False)


class Sample(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def main() -> None:
    started = time.perf_counter()
    console.rule(f"[bold]Barnabas {__version__}: a Kafka that installs with pip")
    with _started_broker() as broker:
        broker.create_topic(TOPIC, partitions=PARTITIONS, configs={"segment.bytes": str(1024 * 1024)})
        say(f"Topic [bold]{TOPIC}[/] has {PARTITIONS} partitions and rolls its files at 1 MiB.")
        _show_producing_and_consuming(broker)
        asyncio.run(_show_offsets(broker.bootstrap_servers))
        _show_files(broker.data_dir)
        _show_first_batch(broker.data_dir)
        _show_restart(broker)
    console.rule(f"[bold]Done in {time.perf_counter() - started:.1f} s")
    _show_next_steps()


def say(text: str) -> None:
    console.print(f"[green]•[/] {text}")


@contextmanager
def _started_broker() -> Iterator[EmbeddedBroker]:
    start = time.perf_counter()
    with EmbeddedBroker() as broker:
        milliseconds = (time.perf_counter() - start) * 1000
        say(
            f"A broker is ready on [bold]{broker.bootstrap_servers}[/] after {milliseconds:.0f} ms, imports included."
        )
        yield broker


def _show_producing_and_consuming(broker: EmbeddedBroker) -> None:
    has_confluent = importlib.util.find_spec("confluent_kafka") is not None
    client = "confluent-kafka (librdkafka)" if has_confluent else "Barnabas' own client"
    start = time.perf_counter()
    if has_confluent:
        _produce_with_confluent(broker.bootstrap_servers)
    else:
        asyncio.run(_produce(broker.bootstrap_servers))
    _say_rate(f"{client} wrote {RECORDS:,} records, acks=all", start)
    start = time.perf_counter()
    if has_confluent:
        samples = _consume_with_confluent(broker.bootstrap_servers)
    else:
        samples = asyncio.run(_consume(broker.bootstrap_servers))
    _say_rate(f"and read {RECORDS:,} records back", start)
    table = Table("partition", "offset", "key", "value", title="Some of them", title_justify="left")
    for sample in samples:
        table.add_row(str(sample.partition), str(sample.offset), *map(_text, (sample.key, sample.value)))
    console.print(table)


def _say_rate(what: str, start: float) -> None:
    seconds = time.perf_counter() - start
    say(f"{what}: {seconds:.2f} s, {RECORDS / seconds:,.0f} records/s.")


def _order(number: int) -> tuple[bytes, bytes]:
    return b"customer-%d" % (number % 100), b'{"order": %d, "total": %d.99}' % (number, number % 90 + 9)


def _produce_with_confluent(servers: str) -> None:
    import confluent_kafka

    settings = {"bootstrap.servers": servers, "acks": "all", "compression.type": "lz4", "linger.ms": 5}
    producer = confluent_kafka.Producer(settings)
    for number in range(RECORDS):
        key, value = _order(number)
        producer.produce(TOPIC, value, key)
        if number % 1000 == 0:
            producer.poll(0)
    if producer.flush(TIMEOUT):
        raise RuntimeError("not all records were delivered")


def _consume_with_confluent(servers: str) -> list[Sample]:
    import confluent_kafka

    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "the-tour"})
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    first: list[confluent_kafka.Message[bytes, bytes]] = []
    seen, deadline = 0, time.monotonic() + TIMEOUT
    while seen < RECORDS:
        if time.monotonic() > deadline:
            raise RuntimeError(f"only {seen} of {RECORDS} records came back")
        messages = consumer.consume(1000, 1.0)
        seen += len(messages)
        first += messages[: max(0, SAMPLES - len(first))]
    consumer.close()
    return [
        Sample(message.partition() or 0, message.offset() or 0, message.key(), message.value())
        for message in first
    ]


async def _produce(servers: str) -> None:
    async with Client(servers) as client, Producer(client, ProducerSettings(compression="lz4")) as producer:
        for number in range(RECORDS):
            key, value = _order(number)
            await producer.enqueue(TOPIC, value, key)


async def _consume(servers: str) -> list[Sample]:
    first: list[ConsumedRecord] = []
    seen = 0
    start = {TopicPartition(TOPIC, index): 0 for index in range(PARTITIONS)}
    async with Client(servers) as client, Consumer(client, start) as consumer, asyncio.timeout(TIMEOUT):
        while seen < RECORDS:
            records = await consumer.poll()
            seen += len(records)
            first += records[: max(0, SAMPLES - len(first))]
    return [Sample(record.partition, record.offset, record.key, record.value) for record in first]


async def _show_offsets(servers: str) -> None:
    partitions = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
    half_a_second_ago = int(time.time() * 1000) - 500
    async with Client(servers) as client:
        begin = await beginning_offsets(client, partitions)
        end = await end_offsets(client, partitions)
        recent = await list_offsets(client, dict.fromkeys(partitions, half_a_second_ago))
    table = Table("partition", "begin", "end", "0.5 s ago", title="Offsets", title_justify="left")
    for tp in partitions:
        numbers = (tp.partition, begin[tp], end[tp], recent[tp].offset)
        table.add_row(*(str(number) if number >= 0 else "-" for number in numbers))
    console.print(table)


def _show_files(data_dir: Path) -> None:
    folder = data_dir / f"{TOPIC}-0"
    table = Table("file", "bytes", title=f"Files of {folder.name}: Kafka's own format", title_justify="left")
    for path in sorted(folder.iterdir()):
        table.add_row(path.name, f"{path.stat().st_size:,}")
    console.print(table)


def _show_first_batch(data_dir: Path) -> None:
    data = (data_dir / f"{TOPIC}-0" / f"{0:020d}.log").read_bytes()
    _, header = next(iterate_headers(data))
    record = next(iterate_records(data, header))
    say(
        f"The first batch on disk: offsets {header.base_offset} to {header.last_offset}, "
        f"{header.record_count:,} records in {header.size:,} bytes, {Codec(header.compression).name.lower()}, "
        f"leader epoch {header.leader_epoch}, producer {header.producer_id}, CRC {header.crc:#010x}."
    )
    say(f"Its first record: key {_text(record.key)}, value {_text(record.value)}")


def _show_restart(broker: EmbeddedBroker) -> None:
    start = time.perf_counter()
    broker.restart()
    milliseconds = (time.perf_counter() - start) * 1000
    total = asyncio.run(_count(broker.bootstrap_servers))
    say(f"Stopped and started again in {milliseconds:.0f} ms: {total:,} records are still there.")


async def _count(servers: str) -> int:
    async with Client(servers) as client:
        ends = await end_offsets(client, [TopicPartition(TOPIC, index) for index in range(PARTITIONS)])
    return sum(ends.values())


def _show_next_steps() -> None:
    console.print("Your turn:")
    for command in (
        "barnabas serve --data ./data",
        "echo hello | barnabas produce greetings",
        "barnabas consume greetings --from beginning",
    ):
        console.print(f"    [bold]{command}")


def _text(value: bytes | None) -> str:
    return "-" if value is None else value.decode("utf-8", "replace")


if __name__ == "__main__":
    main()
