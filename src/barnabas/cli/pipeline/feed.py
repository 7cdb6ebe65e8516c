"""Writes generated records to the topics of a pipeline."""

from __future__ import annotations

import asyncio
import itertools
import time

from barnabas.client import Client, Producer, admin
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.pipelines import security_of
from barnabas.pipelines.definitions import PipelineFiles, generator_of
from barnabas.pipelines.library import Generated
from barnabas.spark import PipelineError

PARTITIONS = 3
PER_SECOND = 25.0  # of the generator's simulated time
HISTORY = 3_600_000  # milliseconds: the records cover the last hour


async def feed_topics(files: PipelineFiles, template: str, count: int, rate: float, seed: int) -> set[str]:
    """Send `count` records, `rate` per second (0: no limit); return the topics written to."""
    start = int(time.time() * 1000) - HISTORY
    made = itertools.islice(generator_of(template)(seed, start, PER_SECOND), count)
    known: set[str] = set()
    security = security_of(files.configuration)
    async with (
        Client(files.bootstrap, client_id="barnabas-feed", security=security) as client,
        Producer(client) as producer,
    ):
        began = time.monotonic()
        for number, record in enumerate(made):
            topic = _topic(files, record)
            if topic not in known:
                await _make(client, topic)
                known.add(topic)
            key = None if record.key is None else record.key.encode()
            await producer.enqueue(topic, record.value, key, timestamp=record.time)
            if rate and number % 100 == 99:
                await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
        await producer.flush()
    return known


def _topic(files: PipelineFiles, record: Generated) -> str:
    """The first of the topics that a setting names."""
    named = files.configuration.get(record.topic)
    if not named:
        raise PipelineError(f"The configuration of {files.folder} does not set {record.topic}.")
    return named.split(",")[0].strip()


async def _make(client: Client, topic: str) -> None:
    try:
        await admin.create_topic(client, topic, partitions=PARTITIONS)
    except KafkaError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
