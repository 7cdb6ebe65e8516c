"""Arrow batches of a Spark task, written to topics."""

import asyncio
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest

from barnabas.client.cluster import Client
from barnabas.records.blocks import Block
from barnabas.records.columnar.encode import BadRowError
from barnabas.spark.client_settings import SparkClientSettings
from barnabas.spark.sink.protocol import SinkError
from barnabas.spark.sink.rows import RowEncoder
from barnabas.spark.sink.settings import SinkSettings
from barnabas.testing import EmbeddedBroker


@pytest.fixture(scope="module")
def strict_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker({"auto.create.topics.enable": "false"}) as running:
        yield running


def encode(
    broker: EmbeddedBroker,
    batches: Iterable[pa.RecordBatch],
    topic: str | None = None,
    patience: float = 60.0,
) -> list[list[Block]]:
    columns = ("value",) if topic else ("value", "topic")
    settings = SinkSettings(SparkClientSettings(broker.bootstrap_servers), columns, topic)

    async def run() -> list[list[Block]]:
        async with Client(broker.bootstrap_servers, total_timeout=patience) as client:
            encoder, found = RowEncoder(client, settings, iter(batches)), []
            while (blocks := await encoder.next_blocks()) is not None:
                found.append(blocks)
            return found

    return asyncio.run(run())


def test_small_batches_are_gathered_and_large_ones_are_not(strict_broker: EmbeddedBroker) -> None:
    topic = strict_broker.create_topic(partitions=2)
    small = pa.record_batch({"value": [b"v"] * 10})
    large = pa.record_batch({"value": [b"v" * 1000] * 5000})
    together, alone = encode(strict_broker, [small, small, large, large], topic)
    assert sum(block.count for block in together) == 5020
    assert sum(block.count for block in alone) == 5000


def test_rows_are_split_by_topic(strict_broker: EmbeddedBroker) -> None:
    first, second = (strict_broker.create_topic() for _ in range(2))
    batch = pa.record_batch({"value": [b"1", b"2", b"3"], "topic": [first, second, first]})
    (blocks,) = encode(strict_broker, [batch])
    assert {block.topic: block.count for block in blocks} == {first: 2, second: 1}


def test_batches_are_no_larger_than_the_topic_takes(strict_broker: EmbeddedBroker) -> None:
    topic = strict_broker.create_topic(configs={"max.message.bytes": "2000"})
    (blocks,) = encode(strict_broker, [pa.record_batch({"value": [b"v" * 100] * 200})], topic)
    assert max(len(block.data) for block in blocks) <= 2000


def test_large_record_is_sent_alone_up_to_the_limit_of_the_topic(strict_broker: EmbeddedBroker) -> None:
    topic = strict_broker.create_topic(configs={"max.message.bytes": "3000000"})
    large, small = b"v" * 2_500_000, b"v" * 600_000
    (blocks,) = encode(strict_broker, [pa.record_batch({"value": [small, large, small, b"v"]})], topic)
    assert [block.count for block in blocks] == [1, 1, 2]
    with pytest.raises(
        BadRowError, match=r"larger than the 3000000 bytes that the topic takes: raise its max\."
    ):
        encode(strict_broker, [pa.record_batch({"value": [large * 2]})], topic)


def test_a_topic_that_is_not_there_is_named(strict_broker: EmbeddedBroker) -> None:
    with pytest.raises(SinkError, match="rows cannot be written to topic 'missing'"):
        encode(strict_broker, [pa.record_batch({"value": [b"v"]})], "missing", patience=0.5)


def test_a_row_without_a_topic_is_refused(strict_broker: EmbeddedBroker) -> None:
    with pytest.raises(BadRowError, match="a row has no topic"):
        encode(strict_broker, [pa.record_batch({"value": [b"v"], "topic": pa.array([None], pa.string())})])
