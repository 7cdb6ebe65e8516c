"""One Python client that produces or consumes in this process; prints its records, CPU seconds and seconds.

    python -m benchmarks.python_clients.client produce aiokafka HOST:PORT TOPIC RECORDS

Values have 100 bytes. Producers are idempotent, consumers read all partitions without a group, and touch each value.
CPU includes all threads of the process; imports and the first record are not measured.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaConsumer, KafkaProducer

from barnabas import AsyncProducer, Consumer, Producer

VALUE = b"0123456789" * 10
LINGER_MS = 5
BATCH_BYTES = 1_000_000  # for clients whose default is 16 KB; ours has 64 KiB
ROWS = 50_000  # of one Arrow batch
VALUES = 10_000  # of one list

Job = Callable[[str, str, int], None]


@contextmanager
def measured(records: int) -> Iterator[None]:
    cpu, begin = time.process_time(), time.perf_counter()
    yield
    taken = {"cpu": time.process_time() - cpu, "seconds": time.perf_counter() - begin}
    print(json.dumps({"records": records, **taken}))


# -- produce -------------------------------------------------------------------------------------------


def confluent_produce(bootstrap: str, topic: str, count: int) -> None:
    settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": LINGER_MS}
    producer = ConfluentProducer({**settings, "batch.size": BATCH_BYTES})
    producer.produce(topic, VALUE)
    producer.flush()
    failed: list[Any] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            failed.append(error)

    with measured(count):
        for index in range(count):
            while True:
                try:
                    producer.produce(topic, VALUE, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.05)
            if not index % 1000:
                producer.poll(0)
        producer.flush()
    assert not failed, failed[0]


def aiokafka_produce(bootstrap: str, topic: str, count: int) -> None:
    async def run() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            enable_idempotence=True,
            linger_ms=LINGER_MS,
            max_batch_size=BATCH_BYTES,
        )
        await producer.start()
        await producer.send_and_wait(topic, VALUE)
        with measured(count):
            for _ in range(count):
                await producer.send(topic, VALUE)
            await producer.flush()
        await producer.stop()

    asyncio.run(run())


def kafka_python_produce(bootstrap: str, topic: str, count: int) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, enable_idempotence=True, linger_ms=LINGER_MS, batch_size=BATCH_BYTES
    )
    producer.send(topic, VALUE).get(60)
    with measured(count):
        for _ in range(count):
            producer.send(topic, VALUE)
        producer.flush()
    producer.close()


def barnabas_produce(bootstrap: str, topic: str, count: int) -> None:
    with Producer(bootstrap, linger_ms=LINGER_MS) as producer:
        producer.send(topic, VALUE).result()
        with measured(count):
            for _ in range(count):
                producer.send(topic, VALUE)
            producer.flush()


def barnabas_async_produce(bootstrap: str, topic: str, count: int) -> None:
    async def run() -> None:
        async with AsyncProducer(bootstrap, linger_ms=LINGER_MS) as producer:
            await (await producer.send(topic, VALUE))
            with measured(count):
                for _ in range(count):
                    await producer.send(topic, VALUE)
                await producer.flush()

    asyncio.run(run())


def barnabas_list_produce(bootstrap: str, topic: str, count: int) -> None:
    _send_batches(bootstrap, topic, count, [VALUE] * min(VALUES, count))


def barnabas_arrow_produce(bootstrap: str, topic: str, count: int) -> None:
    import pyarrow as pa

    _send_batches(bootstrap, topic, count, pa.table({"value": pa.array([VALUE] * min(ROWS, count))}))


def _send_batches(bootstrap: str, topic: str, count: int, batch: Any) -> None:
    with Producer(bootstrap, linger_ms=LINGER_MS) as producer:
        producer.send_batch(topic, batch[:1])
        with measured(count):
            for first in range(0, count, len(batch)):
                producer.send_batch(topic, batch[: count - first])


# -- consume -------------------------------------------------------------------------------------------


def confluent_consume(bootstrap: str, topic: str, count: int) -> None:
    settings = {"bootstrap.servers": bootstrap, "group.id": "benchmark", "enable.auto.commit": False}
    consumer = ConfluentConsumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    done = 0
    while not done:
        done = len(consumer.consume(1))
    with measured(count - done):
        while done < count:
            for message in consumer.consume(1000, 1.0):
                message.value()
                done += 1
    consumer.close()


def aiokafka_consume(bootstrap: str, topic: str, count: int) -> None:
    async def run() -> None:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
        )
        await consumer.start()
        await consumer.getone()
        done = 1
        with measured(count - done):
            while done < count:
                for records in (await consumer.getmany(timeout_ms=1000)).values():
                    for record in records:
                        record.value  # noqa: B018  # as an application would
                        done += 1
        await consumer.stop()

    asyncio.run(run())


def kafka_python_consume(bootstrap: str, topic: str, count: int) -> None:
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
    )
    next(consumer)
    done = 1
    with measured(count - done):
        while done < count:
            for records in consumer.poll(1000).values():
                for record in records:
                    record.value  # noqa: B018  # as an application would
                    done += 1
    consumer.close()


def barnabas_consume(bootstrap: str, topic: str, count: int) -> None:
    with Consumer(bootstrap, topics=topic, auto_offset_reset="earliest") as consumer:
        done = 0
        while not done:
            done = len(consumer.poll(10, max_records=1))
        with measured(count - done):
            while done < count:
                for record in consumer.poll(10, max_records=1000):
                    record.value  # noqa: B018  # as an application would
                    done += 1


def barnabas_arrow_consume(bootstrap: str, topic: str, count: int) -> None:
    with Consumer(bootstrap, topics=topic, auto_offset_reset="earliest") as consumer:
        batches = consumer.batches(["value"])
        done = first = next(batches).num_rows
        with measured(count - first):
            while done < count:
                done += next(batches).num_rows


PRODUCERS: dict[str, Job] = {
    "confluent-kafka": confluent_produce,
    "kafka-python": kafka_python_produce,
    "aiokafka": aiokafka_produce,
    "barnabas, send": barnabas_produce,
    "barnabas, asyncio send": barnabas_async_produce,
    "barnabas, send_batch of a list": barnabas_list_produce,
    "barnabas, send_batch of Arrow": barnabas_arrow_produce,
}
CONSUMERS: dict[str, Job] = {
    "confluent-kafka": confluent_consume,
    "kafka-python": kafka_python_consume,
    "aiokafka": aiokafka_consume,
    "barnabas, poll": barnabas_consume,
    "barnabas, Arrow batches": barnabas_arrow_consume,
}
JOBS = {"produce": PRODUCERS, "consume": CONSUMERS}

if __name__ == "__main__":
    JOBS[sys.argv[1]][sys.argv[2]](sys.argv[3], sys.argv[4], int(sys.argv[5]))
