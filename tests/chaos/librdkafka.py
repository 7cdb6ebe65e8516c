"""Loads of librdkafka, the basis of most clients outside of Java."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException, Producer

from barnabas.testing.client_settings import ClientSettings
from tests.chaos.loads import DELIVERY_MS, PACE, PARTITIONS, Load

PER_TRANSACTION = 5


class _LibrdkafkaLoad(Load):
    client = "librdkafka"

    def __init__(self, clients: ClientSettings, topic: str) -> None:
        super().__init__(clients, topic)
        self._number = 0
        self._settings: dict[str, Any] = {
            **clients.confluent,
            "enable.idempotence": True,
            "delivery.timeout.ms": DELIVERY_MS,
            "linger.ms": 1,
            "topic.metadata.refresh.interval.ms": 500,
            "reconnect.backoff.max.ms": 500,
        }

    def _next(self) -> tuple[int, int]:
        self._number += 1
        return self._number, self._number % PARTITIONS


class IdempotentLoad(_LibrdkafkaLoad):
    kind = "idempotent"

    def run(self) -> None:
        producer = Producer(self._settings)
        while not self._stop.is_set():
            value, partition = self._next()
            producer.produce(self._topic, str(value).encode(), partition=partition, on_delivery=self._told)
            producer.poll(PACE)
        assert producer.flush(DELIVERY_MS / 1000) == 0

    def _told(self, error: Any, message: Any) -> None:
        value = int(message.value())
        if error is not None:
            self.unknown.add(value)
        else:
            self._acknowledge(value, message.partition())


class TransactionalLoad(_LibrdkafkaLoad):
    """Small transactions, every seventh of which is aborted on purpose."""

    kind = "transactional"

    def run(self) -> None:
        self._settings |= {"transactional.id": f"chaos-{uuid.uuid4()}", "transaction.timeout.ms": DELIVERY_MS}
        producer = self._new_producer()
        rounds = 0
        while not self._stop.is_set():
            rounds += 1
            if not self._one(producer, abort=rounds % 7 == 0):
                producer = self._new_producer()

    def _new_producer(self) -> Producer:
        producer = Producer(self._settings)
        _insist(lambda: producer.init_transactions(30))
        return producer

    def _one(self, producer: Producer, abort: bool) -> bool:
        """False when the producer is of no more use."""
        sent = [self._next() for _ in range(PER_TRANSACTION)]
        values = {value for value, _ in sent}
        try:
            producer.begin_transaction()
            for value, partition in sent:
                producer.produce(self._topic, str(value).encode(), partition=partition)
                producer.poll(PACE)
            if abort:
                # In the log first: a record that librdkafka withdraws before sending it proves nothing. Without any
                # partition it also ends a transaction that never started, which brokers reject.
                producer.flush(DELIVERY_MS / 1000)
                producer.abort_transaction(60)
                self.aborted |= values
                return True
            _insist(lambda: producer.commit_transaction(60))
        except KafkaException as error:
            return self._give_up(producer, error, values)
        for value, partition in sent:
            self._acknowledge(value, partition)
        return True

    def _give_up(self, producer: Producer, error: KafkaException, values: set[int]) -> bool:
        if not error.args[0].txn_requires_abort():
            self.unknown |= values
            return False
        try:
            _insist(lambda: producer.abort_transaction(60))
        except KafkaException:
            self.unknown |= values
            return False
        self.aborted |= values
        return True


def begin_transactions(clients: ClientSettings) -> None:
    """Make the cluster coordinate transactions, which it does from the first one on."""
    producer = Producer({**clients.confluent, "transactional.id": "the-first"})
    _insist(lambda: producer.init_transactions(30))


def _insist(action: Callable[[], object]) -> None:
    """Retry while the client reports a retriable error."""
    deadline = time.monotonic() + DELIVERY_MS / 1000
    while True:
        try:
            action()
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
