"""Late transactional requests of a driver, while it is in its next transaction."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from barnabas.client.cluster import Client
from barnabas.common.errors import KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.api import ApiKey
from barnabas.records.blocks import Block, block_of
from barnabas.records.record import Record
from barnabas.spark.sink import protocol
from barnabas.spark.sink.driver import SinkDriver
from barnabas.spark.sink.protocol import Batch
from tests.support.proxies import proxied_broker
from tests.support.topics import read_committed

SINK, QUERY, START = "orders", "query", "start"


def rows(topic: str, batch: int) -> tuple[Block, ...]:
    """A block per row, so that each is a separate request."""
    tp = TopicPartition(topic, 0)
    return tuple(block_of(tp, Record(0, 0, None, b"%d-%d" % (batch, row))) for row in range(3))


@pytest.mark.parametrize("interrupted", [2, 3, 4])
def test_a_late_commit_does_not_decide_a_batch_whose_rows_are_not_all_there(interrupted: int) -> None:
    with proxied_broker() as (broker, proxy):
        topic = broker.create_topic()

        async def scenario() -> None:
            async with Client(broker.bootstrap_servers) as client:
                driver = SinkDriver(client, SINK)
                late = proxy.hold(ApiKey.END_TXN)
                ticket = await driver.run(protocol.plan("owner"))
                assert late.is_taken
                proxy.before(ApiKey.PRODUCE, interrupted, late.deliver)
                for _ in range(2):  # Spark runs a batch again that has failed
                    ticket = await driver.run(protocol.plan("owner"))
                    if not ticket.has(QUERY, 0):
                        batch = Batch(0, QUERY, ticket.run, rows=rows(topic, 0), start=START)
                        with contextlib.suppress(KafkaError):
                            await driver.run(protocol.commit(batch))

        asyncio.run(scenario())
        found = [message.value() for message in read_committed(broker.bootstrap_servers, topic)]
        assert found == [b"0-0", b"0-1", b"0-2"]
