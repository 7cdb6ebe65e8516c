"""Transactions of a single process, with late and repeated requests."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from barnabas.client.cluster import Client
from barnabas.client.producing.batch_producer import (
    RecordBatch,
    TransactionalBatchProducer,
    TransactionalProducer,
)
from barnabas.client.producing.transactional import FENCED, TransactionRequests
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest
from barnabas.records.record import Record
from barnabas.testing import EmbeddedBroker
from barnabas.transactions.transaction import LAST_EPOCH
from tests.support.proxies import FrameProxy, proxied_broker
from tests.support.topics import read_committed

NAME, TIMEOUT_MS = "payments", 60_000
SAFE_DOWNGRADE = 2


@contextmanager
def broker_with(version: int) -> Iterator[tuple[EmbeddedBroker, FrameProxy]]:
    """A broker with this `transaction.version`."""

    async def lower() -> None:
        async with Client(broker.bootstrap_servers) as client:
            update = FeatureUpdateKey(
                feature="transaction.version", max_version_level=version, upgrade_type=SAFE_DOWNGRADE
            )
            answer = await client.send_to_any(UpdateFeaturesRequest(feature_updates=[update]))
            assert not answer.error_code, answer

    with proxied_broker() as (broker, proxy):
        if version < 2:
            asyncio.run(lower())
        yield broker, proxy


def batch(topic: str, value: str) -> RecordBatch:
    return RecordBatch(TopicPartition(topic, 0), [Record(0, 0, None, value.encode())])


def committed(broker: EmbeddedBroker, topic: str) -> list[str]:
    return [message.value().decode() for message in read_committed(broker.bootstrap_servers, topic)]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_commit_that_arrives_late_and_twice_does_not_end_the_next_transaction(version: int) -> None:
    with broker_with(version) as (broker, proxy):
        topic = broker.create_topic()

        async def scenario() -> None:
            async with Client(broker.bootstrap_servers) as client:
                producer = await TransactionalProducer.take(client, NAME, TIMEOUT_MS)
                late = proxy.hold(ApiKey.END_TXN)
                await producer.send([batch(topic, "first")])
                await producer.commit()
                assert late.version == (5 if version == 2 else 4)
                await producer.send([batch(topic, "second")])
                for _ in range(2):
                    assert ErrorCode.PRODUCER_FENCED.to_bytes(2, "big") in late.deliver()
                described = await TransactionRequests(client).describe([NAME])
                assert described[NAME].transaction_state == "Ongoing"
                await producer.send([batch(topic, "third")])
                await producer.commit()
                await producer.commit()  # nothing is open

        asyncio.run(scenario())
        assert committed(broker, topic) == ["first", "second", "third"]


@pytest.mark.parametrize("api_key", [ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.PRODUCE, ApiKey.END_TXN])
def test_with_v1_the_epoch_rises_after_a_request_without_an_answer_and_only_then(api_key: ApiKey) -> None:
    with broker_with(0) as (broker, proxy):
        topic = broker.create_topic()

        async def scenario() -> None:
            async with Client(broker.bootstrap_servers) as client:
                producer = await TransactionalProducer.take(client, NAME, TIMEOUT_MS)
                epochs = []
                for number in range(4):
                    late = proxy.hold(api_key) if number == 1 else None
                    await producer.send([batch(topic, str(number))])
                    await producer.commit()
                    epochs.append(producer.identity.epoch)
                    assert late is None or late.is_taken
                assert epochs[0] == 0
                assert epochs[-1] == 1

        asyncio.run(scenario())
        assert committed(broker, topic) == ["0", "1", "2", "3"]


def test_a_producer_that_was_replaced_does_not_take_its_id_back_when_it_raises_the_epoch() -> None:
    """Its state is outdated: it must initialize again."""
    with broker_with(0) as (broker, proxy):
        topic = broker.create_topic()

        async def scenario() -> None:
            async with Client(broker.bootstrap_servers) as client:
                old = await TransactionalProducer.take(client, NAME, TIMEOUT_MS)
                proxy.hold(ApiKey.END_TXN)
                await old.send([batch(topic, "old")])
                await old.commit()
                new = await TransactionalProducer.take(client, NAME, TIMEOUT_MS)
                with pytest.raises(KafkaError) as refused:
                    await old.send([batch(topic, "too late")])
                assert refused.value.code in FENCED
                await new.send([batch(topic, "new")])
                await new.commit()

        asyncio.run(scenario())
        assert committed(broker, topic) == ["old", "new"]


def test_a_transaction_for_another_process_begins_under_an_epoch_without_late_requests() -> None:
    """A late AddPartitionsToTxn would reopen the transaction after the other process has committed it."""
    with proxied_broker() as (broker, proxy):
        topic = broker.create_topic()

        async def scenario() -> None:
            async with Client(broker.bootstrap_servers) as client:
                transactions = TransactionRequests(client)
                identity = await transactions.initialize(NAME, TIMEOUT_MS)
                late = proxy.hold(ApiKey.ADD_PARTITIONS_TO_TXN)
                producer = TransactionalBatchProducer(
                    transactions, identity, NAME, lambda: transactions.initialize(NAME, TIMEOUT_MS)
                )
                await producer.send([batch(topic, "row")])
                await TransactionRequests(client).end(NAME, producer.identity, committed=True)
                late.deliver()
                described = await transactions.describe([NAME])
                assert described[NAME].transaction_state == "CompleteCommit"

        asyncio.run(scenario())
        assert committed(broker, topic) == ["row"]


def test_epochs_of_a_producer_id_may_run_out() -> None:
    with proxied_broker() as (broker, _):
        topic = broker.create_topic()

        async def scenario() -> None:
            async with Client(broker.bootstrap_servers) as client:
                producer = await TransactionalProducer.take(client, NAME, TIMEOUT_MS)
                first = producer.identity
                shards = broker.broker.coordinators.transactions.runtime.shards()
                (shard,) = [shard for _, shard in shards]
                known = shard.get(NAME)
                assert known is not None
                shard._transactions[NAME] = dataclasses.replace(known, epoch=LAST_EPOCH)
                producer._use(dataclasses.replace(first, epoch=LAST_EPOCH))
                for number in range(3):
                    await producer.send([batch(topic, str(number))])
                    await producer.commit()
                assert producer.identity.producer_id != first.producer_id
                assert producer.identity.epoch == 2

        asyncio.run(scenario())
        assert committed(broker, topic) == ["0", "1", "2"]
