"""Consume, transform, produce, exactly once: a process that a test kills and restarts.

    python exactly_once_worker.py confluent|aiokafka BOOTSTRAP SOURCE OUTPUT COUNT

It starts over after every error, as such programs do, and ends when COUNT inputs are committed. The worker owns
partition 0 of its input: it does not wait for the session of a member that was killed.

librdkafka 2.16 hangs in `send_offsets_to_transaction` once the group coordinator is missing from a metadata response,
as a broker that is down is: the request waits for a broker handle that librdkafka has terminated (librdkafka issue
5511), and the timeout of the call is not checked (issue 5456). A supervisor would restart such a program; here the
worker replaces itself, which is a crash like any other to the brokers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator

import aiokafka
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

SHORT = 3.0
HANGS = 3 * SHORT  # a call with a timeout of SHORT that has not returned by then never will
AT_ONCE = 3  # records in a transaction


@contextlib.contextmanager
def restart_after(seconds: float) -> Iterator[None]:
    """Replace this process, under the same process id, when the body takes longer than `seconds`."""
    timer = threading.Timer(seconds, os.execv, (sys.executable, [sys.executable, *sys.argv]))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def with_confluent(bootstrap: str, source: str, output: str, count: int) -> bool:
    """Process until everything is committed; False when it has to be started over."""
    # Without recovery librdkafka keeps its brokers when all of them are down, and connects again.
    common = {"bootstrap.servers": bootstrap, "log_level": 0, "metadata.recovery.strategy": "none"}
    producer = Producer({**common, "transactional.id": f"worker-{source}"})
    consumer = Consumer(
        {
            **common,
            "group.id": f"workers-{source}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    try:
        producer.init_transactions(SHORT)
        done = max(consumer.committed([TopicPartition(source, 0)], SHORT)[0].offset, 0)
        consumer.assign([TopicPartition(source, 0, done)])
        while done < count:
            messages = [one for one in consumer.consume(AT_ONCE, 0.5) if one.error() is None]
            if not messages:
                continue
            producer.begin_transaction()
            for message in messages:
                producer.produce(output, message.value(), partition=0)
            done = (messages[-1].offset() or 0) + 1
            position = TopicPartition(source, 0, done)
            with restart_after(HANGS):
                producer.send_offsets_to_transaction([position], consumer.consumer_group_metadata(), SHORT)
            producer.commit_transaction(SHORT)
        return True
    except (KafkaException, BufferError):
        return False
    finally:
        consumer.close()


def with_aiokafka(bootstrap: str, source: str, output: str, count: int) -> bool:
    try:
        asyncio.run(asyncio.wait_for(_with_aiokafka(bootstrap, source, output, count), 30))
        return True
    except Exception:  # errors of Kafka, of the socket, and assertions about aiokafka's own state
        return False


async def _with_aiokafka(bootstrap: str, source: str, output: str, count: int) -> None:
    group = f"workers-{source}"
    place = aiokafka.TopicPartition(source, 0)
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        isolation_level="read_committed",
        enable_auto_commit=False,
        request_timeout_ms=3000,
    )
    consumer.assign([place])
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=bootstrap, transactional_id=f"worker-{source}", request_timeout_ms=3000
    )
    async with consumer, producer:
        done = await consumer.committed(place) or 0
        consumer.seek(place, done)
        while done < count:
            batches = await consumer.getmany(timeout_ms=500, max_records=AT_ONCE)
            for messages in batches.values():
                await producer.begin_transaction()
                for message in messages:
                    await asyncio.wait_for(producer.send(output, message.value, partition=0), SHORT)
                done = messages[-1].offset + 1
                await asyncio.wait_for(producer.send_offsets_to_transaction({place: done}, group), SHORT)
                await asyncio.wait_for(producer.commit_transaction(), SHORT)


def main() -> None:
    library, bootstrap, source, output, count = sys.argv[1:6]
    logging.disable()  # faults here are injected
    work = {"confluent": with_confluent, "aiokafka": with_aiokafka}[library]
    while not work(bootstrap, source, output, int(count)):
        time.sleep(0.1)


if __name__ == "__main__":
    main()
