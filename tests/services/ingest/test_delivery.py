"""Late transactional requests, while the agent is in its next transaction."""

from __future__ import annotations

import asyncio
import contextlib

from barnabas.client.cluster import Client
from barnabas.common.errors import KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.api import ApiKey
from barnabas.records.blocks import block_of
from barnabas.records.record import Record
from barnabas.services.ingest.delivery import Collected, Delivery
from tests.support.proxies import proxied_broker
from tests.support.topics import read_committed


def lines(topic: str, start: int, end: int) -> Collected:
    """A batch per line, so that each is a separate request; and the next position."""
    found = Collected(positions={"file": str(end).encode()})
    tp = TopicPartition(topic, 0)
    found.batches = [block_of(tp, Record(0, 0, None, b"line %d" % line)) for line in range(start, end)]
    return found


def test_a_late_commit_does_not_store_positions_behind_lines_that_are_not_there() -> None:
    with proxied_broker() as (broker, proxy):
        topic = broker.create_topic()

        async def scenario() -> None:
            async with Client(broker.bootstrap_servers) as client:
                delivery = Delivery(client, "agent")
                await delivery.begin()
                late = proxy.hold(ApiKey.END_TXN)
                await delivery.commit({"source": lines(topic, 0, 1)})
                proxy.before(ApiKey.PRODUCE, 2, late.deliver)
                with contextlib.suppress(KafkaError):
                    await delivery.commit({"source": lines(topic, 1, 4)})
                again = Delivery(client, "agent")  # as after a failure
                position = int((await again.begin())["source"]["file"])
                if position < 4:
                    await again.commit({"source": lines(topic, position, 4)})

        asyncio.run(scenario())
        found = [message.value() for message in read_committed(broker.bootstrap_servers, topic)]
        assert found == [b"line 0", b"line 1", b"line 2", b"line 3"]
