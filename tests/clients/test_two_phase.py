"""Transactions without a timeout (InitProducerId 6, KIP-939): prepared by one process, ended by another."""

from __future__ import annotations

import asyncio
import time

import pytest

from barnabas.client.cluster import Client
from barnabas.client.connection import BrokerConnection
from barnabas.client.producing.batch_producer import TransactionalBatchProducer
from barnabas.client.producing.producer_ids import ProducerIdentity
from barnabas.client.producing.transactional import TransactionRequests
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.metadata import FindCoordinatorRequest
from barnabas.protocol.messages.transactions import InitProducerIdRequest
from barnabas.records.blocks import block_of
from barnabas.records.record import Record
from barnabas.testing import EmbeddedBroker
from tests.support.topics import read_committed
from tests.support.waiting import async_eventually

SWEEP = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}


async def write_and_leave(
    broker: EmbeddedBroker, topic: str, name: str, *, without_timeout: bool
) -> ProducerIdentity:
    """A process that writes in a transaction and exits."""
    async with Client(broker.bootstrap_servers) as client:
        transactions = TransactionRequests(client)
        identity = await transactions.initialize(name, 200, without_timeout=without_timeout)
        await client.topics([topic])
        producer = TransactionalBatchProducer(transactions, identity, name)
        record = Record(0, time.time_ns() // 1_000_000, b"k", name.encode())
        await producer.send([block_of(TopicPartition(topic, 0), record)])
        return identity


async def state_of(broker: EmbeddedBroker, name: str) -> str:
    async with Client(broker.bootstrap_servers) as client:
        return (await TransactionRequests(client).describe([name]))[name].transaction_state


def test_a_transaction_without_a_timeout_outlives_all_others_and_a_restart() -> None:
    with EmbeddedBroker(SWEEP) as broker:
        topic = broker.create_topic()

        async def leave_both() -> ProducerIdentity:
            kept = await write_and_leave(broker, topic, "kept", without_timeout=True)
            await write_and_leave(broker, topic, "timed", without_timeout=False)
            await async_eventually(lambda: state_of(broker, "timed"), lambda state: state == "CompleteAbort")
            return kept

        identity = asyncio.run(leave_both())
        assert asyncio.run(state_of(broker, "kept")) == "Ongoing"
        with pytest.raises(AssertionError, match="a transaction is open"):
            read_committed(broker.bootstrap_servers, topic, timeout=1)
        broker.restart()

        async def commit() -> None:
            async with Client(broker.bootstrap_servers) as client:
                for _ in range(2):  # sent again, as after a lost answer
                    await TransactionRequests(client).end("kept", identity, committed=True)

        asyncio.run(commit())
        assert [message.value() for message in read_committed(broker.bootstrap_servers, topic)] == [b"kept"]


@pytest.mark.parametrize(
    ("setting", "wanted", "answer"),
    [
        ("true", {"enable2_pc": True}, ErrorCode.NONE),
        ("false", {"enable2_pc": True}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("true", {"keep_prepared_txn": True}, ErrorCode.UNSUPPORTED_VERSION),
        ("false", {}, ErrorCode.NONE),
    ],
)
def test_init_producer_id_6_answers_as_kafka_does(
    setting: str, wanted: dict[str, bool], answer: ErrorCode
) -> None:
    async def ask(port: int) -> int:
        connection = await BrokerConnection.connect("127.0.0.1", port, "wire")
        try:
            await connection.send(FindCoordinatorRequest(coordinator_keys=["id"], key_type=1))
            request = InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=1000, **wanted)
            return int((await connection.send(request, 6)).error_code)
        finally:
            connection.close()

    with EmbeddedBroker({"transaction.two.phase.commit.enable": setting}) as broker:
        assert asyncio.run(ask(broker.port)) == answer


BOUNDS = {
    "barnabas.transactions.without.timeout.max": "3",
    "barnabas.transactions.without.timeout.per.prefix.max": "2",
}


def test_transactions_that_no_timeout_ends_are_bounded_and_ending_one_makes_room() -> None:
    """Including ids created earlier: only open transactions count."""
    with EmbeddedBroker(BOUNDS) as broker:
        topic = broker.create_topic()
        tp = TopicPartition(topic, 0)

        async def scenario() -> None:
            async with Client(broker.bootstrap_servers) as client:
                transactions = TransactionRequests(client)

                async def take(name: str) -> ProducerIdentity:
                    return await transactions.initialize(name, without_timeout=True)

                taken = {name: await take(name) for name in ("a-1", "a-2", "a-3", "b-1", "c-1")}
                for name in ("a-1", "a-2"):
                    await transactions.add_partitions(name, taken[name], [tp])
                for refused in (transactions.add_partitions("a-3", taken["a-3"], [tp]), take("a-4")):
                    with pytest.raises(KafkaError, match=r"POLICY_VIOLATION.*barnabas transactions abort"):
                        await refused
                await transactions.add_partitions("b-1", taken["b-1"], [tp])
                with pytest.raises(KafkaError, match="POLICY_VIOLATION"):
                    await transactions.add_partitions("c-1", taken["c-1"], [tp])
                await transactions.add_partitions("a-1", taken["a-1"], [tp])  # already open: continues
                await transactions.end("a-1", taken["a-1"], committed=True)
                await transactions.add_partitions("c-1", taken["c-1"], [tp])
                timed = await transactions.initialize("a-9")  # with a timeout there is always room
                await transactions.add_partitions("a-9", timed, [tp])

        asyncio.run(scenario())
        assert broker.broker.metrics.snapshot()["barnabas_transactions_refused_total"] == 3


def test_reused_id_is_fenced_regardless_of_the_number_of_open_ones() -> None:
    with EmbeddedBroker({**BOUNDS, "barnabas.transactions.without.timeout.max": "1"}) as broker:
        topic = broker.create_topic()

        async def scenario() -> None:
            async with Client(broker.bootstrap_servers) as client:
                transactions = TransactionRequests(client)
                for _ in range(3):  # a returning driver reuses its ids, which ends its transactions
                    identity = await transactions.initialize("a-1", without_timeout=True)
                    await transactions.add_partitions("a-1", identity, [TopicPartition(topic, 0)])

        asyncio.run(scenario())


def test_the_ids_of_a_coordinator_are_bounded() -> None:
    settings = {"barnabas.transactional.ids.max": "2", "transaction.state.log.num.partitions": "1"}
    with EmbeddedBroker(settings) as broker:
        topic = broker.create_topic()

        async def scenario() -> None:
            async with Client(broker.bootstrap_servers) as client:
                transactions = TransactionRequests(client)
                for name in ("silent", "busy", "third"):
                    identity = await transactions.initialize(name)
                    if name != "silent":
                        await transactions.add_partitions(name, identity, [TopicPartition(topic, 0)])
                with pytest.raises(KafkaError, match="POLICY_VIOLATION"):
                    await transactions.initialize("fourth")
                with pytest.raises(KafkaError, match="INVALID_PRODUCER_ID_MAPPING"):
                    await transactions.end(
                        "silent", ProducerIdentity(0, 0), committed=True
                    )  # space was freed

        asyncio.run(scenario())
