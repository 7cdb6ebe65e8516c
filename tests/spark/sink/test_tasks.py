"""A task of Spark that writes in a transaction, without Spark."""

import asyncio
from collections.abc import Iterator

import pyarrow as pa
import pytest

from barnabas.client.cluster import Client
from barnabas.client.producing.transactional import TransactionRequests
from barnabas.spark.broker_link import BrokerLink
from barnabas.spark.client_settings import SparkClientSettings
from barnabas.spark.sink import rows as sink_rows
from barnabas.spark.sink.protocol import SinkError, Ticket
from barnabas.spark.sink.settings import SinkSettings
from barnabas.spark.sink.writer import WriterTask, Written
from barnabas.testing import EmbeddedBroker
from tests.support.waiting import async_until

TIMEOUT_MS = 60_000


async def end_what_is_open(bootstrap: str, sink: str) -> None:
    """As another query of the sink does that tidies up."""
    async with Client(bootstrap) as client:
        transactions = TransactionRequests(client)

        async def opened() -> list[str]:
            return [name for name in await transactions.ongoing() if name.startswith(sink)]

        names = await async_until(opened, "the task has opened no transaction")
        for name in names:
            await transactions.initialize(name, TIMEOUT_MS)


def test_task_with_an_ended_transaction_reports_the_possible_causes(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_rows, "COLLECTED_BYTES", 1)  # every batch is a request
    topic, sink = broker.create_topic(), "ended-elsewhere"
    settings = SinkSettings(
        SparkClientSettings(broker.bootstrap_servers), ("value",), topic, sink=sink, handed_over=0
    )

    def rows() -> Iterator[pa.RecordBatch]:
        for number in range(5):
            if number == 2:  # the first is on its way
                asyncio.run(end_what_is_open(broker.bootstrap_servers, sink))
            yield pa.record_batch({"value": pa.array([b"%d" % number])})

    link = BrokerLink(broker.bootstrap_servers)
    task = WriterTask(settings, sink, Ticket(run=1), TIMEOUT_MS)
    try:
        with pytest.raises(SinkError, match="another query with the same sinkId, has the sink"):
            link.run(task._write(link, rows(), Written(start="start"), 0))
    finally:
        link.close()
