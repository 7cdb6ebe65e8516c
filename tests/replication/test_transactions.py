"""Transactions over several brokers: coordinators and leaders die, and committed records exist once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from barnabas.protocol.internal_topics import partition_for
from tests.replication.test_brokers import create
from tests.support.clusters import Brokers

TRANSACTION = "payments"


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    with Brokers(tmp_path) as running:
        yield running


@pytest.mark.timeout(240)
@pytest.mark.parametrize("victim", ["leader", "coordinator"])
def test_committed_transactions_are_there_once_and_aborted_ones_never(brokers: Brokers, victim: str) -> None:
    create(brokers, "orders", partitions=2)
    producer = Producer(
        {
            "bootstrap.servers": brokers.bootstrap_servers,
            "transactional.id": TRANSACTION,
            "transaction.timeout.ms": 20_000,
        }
    )
    producer.init_transactions(60)
    brokers.until_in_sync("__transaction_state", 3)
    committed: list[int] = []
    for number in range(12):
        if number == 4:
            dead = _victim(brokers, victim)
            brokers.kill(dead)
        if number == 8:
            brokers.start(dead)
        if _transact(producer, number, commit=number % 3 != 2):
            committed.append(number)
    assert sorted(_read_committed(brokers)) == sorted(committed * 2)
    assert len(committed) >= 6


def _victim(brokers: Brokers, victim: str) -> int:
    if victim == "leader":
        return brokers.state("orders").leader
    partitions = brokers.any.image.topics["__transaction_state"].partitions
    return partitions[partition_for(TRANSACTION, len(partitions))].leader


def _transact(producer: Producer, number: int, *, commit: bool) -> bool:
    """Whether it was committed; a transaction that fails is aborted and tried again, as applications do."""
    for _ in range(20):
        try:
            producer.begin_transaction()
            for partition in (0, 1):
                producer.produce("orders", str(number).encode(), partition=partition)
            producer.flush(60)
            if not commit:
                producer.abort_transaction(60)
                return False
            _end(producer)
            return True
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(60)
            time.sleep(0.1)
    raise AssertionError(f"transaction {number} cannot be ended")


def _end(producer: Producer) -> None:
    while True:
        try:
            producer.commit_transaction(60)
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def _read_committed(brokers: Brokers) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": brokers.bootstrap_servers,
            "group.id": "auditor",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition("orders", index, 0) for index in (0, 1)])
    values: list[int] = []
    ends: set[int | None] = set()
    try:
        while len(ends) < 2:
            message = consumer.poll(60)
            assert message is not None, "the last transaction is not ended"
            if message.error():
                ends.add(message.partition())
            else:
                values.append(int(message.value() or b""))
    finally:
        consumer.close()
    return values
