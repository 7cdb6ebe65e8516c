"""Kafka's own producer with transactions V2, and `kafka-transactions`."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from barnabas.client.connection import BrokerConnection
from barnabas.testing import EmbeddedBroker
from barnabas.transactions.transaction import TransactionState
from tests.clients.conftest import consume
from tests.clients.test_transactions_confluent import TIMEOUT, end_offsets, transactional
from tests.clients.test_transactions_wire import V1_PRODUCE, Wire
from tests.support.kafka.tools import run_tool

pytestmark = pytest.mark.java

APPLICATION = Path(__file__).parent / "java" / "Transactions.java"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"


def test_a_java_application_with_transactions_v2(broker: EmbeddedBroker, bootstrap: str) -> None:
    source, output = broker.create_topic(partitions=2), broker.create_topic()
    lines = run_tool(str(APPLICATION), bootstrap, source, output, "20").check().stdout.splitlines()
    assert lines[0] == "committed [kept too-0, kept too-1, kept-0, kept-1]"
    assert "transformed [KEPT TOO-0, KEPT TOO-1, KEPT-0, KEPT-1]" in lines
    assert lines[1] == "offsets 2"
    assert "InvalidProducerEpochException" in lines[3]  # the zombie, as against Apache Kafka 4.3.1
    epochs = {
        one.transactional_id: one.epoch
        for _, shard in broker.broker.coordinators.transactions.runtime.shards()
        for one in shard
    }
    assert epochs["java-measured"] == 20  # one more with each transaction
    assert epochs["java-writer"] == 4


def test_kafka_producer_performance_writes_transactions(bootstrap: str, topic: str) -> None:
    result = run_tool(
        PRODUCER_PERFORMANCE,
        "--topic", topic, "--num-records", "500", "--record-size", "100", "--throughput", "2000",
        "--transactional-id", f"performance-{topic}", "--transaction-duration-ms", "50",
        "--producer-props", f"bootstrap.servers={bootstrap}",
    ).check()  # fmt: skip
    assert "500 records sent" in result.stdout
    assert len(consume(bootstrap, topic, 500, isolation_level="read_committed")) == 500


def test_kafka_dump_log_reads_the_state_of_transactions(
    broker: EmbeddedBroker, bootstrap: str, topic: str
) -> None:
    producer = transactional(bootstrap, f"dumped-{topic}")
    producer.begin_transaction()
    producer.produce(topic, b"value", partition=0)
    producer.commit_transaction(TIMEOUT)
    log = broker.data_dir / "__transaction_state-0" / "00000000000000000000.log"
    dump = run_tool(DUMP_LOG, "--files", str(log), "--transaction-log-decoder").check().stdout
    lines = [line for line in dump.splitlines() if f"dumped-{topic}" in line]
    written = [re.findall(r'"transactionStatus":(\d)', line)[0] for line in lines]
    assert [TransactionState(int(status)).label for status in written] == [
        "Empty", "Ongoing", "PrepareCommit", "CompleteCommit"
    ]  # fmt: skip


def tool(bootstrap: str, *args: str) -> str:
    return run_tool(TRANSACTIONS, "--bootstrap-server", bootstrap, *args).check().stdout


def test_kafka_transactions_lists_describes_and_aborts(bootstrap: str, topic: str) -> None:
    name = f"hanging-{topic}"
    producer = transactional(bootstrap, name)
    producer.begin_transaction()
    producer.produce(topic, b"left open", partition=0)
    assert producer.flush(TIMEOUT) == 0
    assert re.search(rf"{name}\s+\d+\s+\d+\s+Ongoing", tool(bootstrap, "list"))
    assert re.search(
        rf"\d+\s+{name}\s+\d+\s+0\s+Ongoing\s.*{topic}-0",
        tool(bootstrap, "describe", "--transactional-id", name),
    )
    place = ("--topic", topic, "--partition", "0")
    producers = tool(bootstrap, "describe-producers", *place)
    producer_id = producers.splitlines()[1].split()[0]
    assert producers.splitlines()[1].split()[-1] == "0"  # the start offset of its transaction
    tool(bootstrap, "abort", *place, "--start-offset", "0")
    assert end_offsets(bootstrap, topic, "read_committed") == (0, 2)
    after = next(
        line
        for line in tool(bootstrap, "describe-producers", *place).splitlines()
        if line.startswith(producer_id)
    )
    assert after.split()[-1] == "None"


def test_kafka_transactions_finds_hanging_transactions() -> None:
    """Without verification a batch may open a transaction that is unknown to the coordinator and never ends."""

    async def hang(port: int, topic: str) -> None:
        connection = await BrokerConnection.connect("127.0.0.1", port, "wire")
        wire = Wire(connection, topic, "forgotten")
        await wire.find(wire.name, 1)
        await wire.init()
        assert await wire.produce(V1_PRODUCE, timestamp=1) == 0  # hangs since 1970
        connection.close()

    with EmbeddedBroker({"transaction.partition.verification.enable": "false"}) as broker:
        topic = broker.create_topic()
        asyncio.run(hang(broker.port, topic))
        hanging = tool(broker.bootstrap_servers, "find-hanging", "--broker-id", "1", "--topic", topic)
        # partition, producer id and epoch, no coordinator's epoch yet, first offset
        assert re.search(rf"{topic}\s+0\s+0\s+0\s+-1\s+0\s", hanging)
        tool(broker.bootstrap_servers, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
        assert end_offsets(broker.bootstrap_servers, topic, "read_committed") == (0, 2)
