"""Producers that go on whatever happens, and remember what they were told."""

from __future__ import annotations

import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaException, Producer

PARTITIONS = 3
DELIVERY_MS = 60_000
PACE = (
    0.002  # seconds between records: enough of them to notice a loss, few enough to leave the brokers a core
)
PER_TRANSACTION = 5


class Load:
    """`acknowledged` by partition, in the order of sending; `unknown` may be there or not; `aborted` must not be.

    `acks` are the moments of acknowledgements by partition: where they are far apart, nobody could write.
    """

    transactional = False

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.acknowledged: dict[int, list[int]] = defaultdict(list)
        self.unknown: set[int] = set()
        self.aborted: set[int] = set()
        self.acks: dict[int, list[float]] = defaultdict(list)
        self.failure: BaseException | None = None
        self._topic = topic
        self._number = 0
        self._stop = threading.Event()
        self._settings = {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "delivery.timeout.ms": DELIVERY_MS,
            "linger.ms": 1,
            "topic.metadata.refresh.interval.ms": 500,
            "reconnect.backoff.max.ms": 500,
        }
        self._thread = threading.Thread(target=self._guarded, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(2 * DELIVERY_MS / 1000)
        assert not self._thread.is_alive(), "the producer cannot finish"
        if self.failure is not None and kind is None:
            raise self.failure

    def _guarded(self) -> None:
        try:
            self.run()
        except BaseException as error:
            self.failure = error

    def run(self) -> None:
        raise AssertionError("a load says what it does")

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    def longest_gap(self, since: float, until: float) -> float:
        """The longest time within which some partition acknowledged nothing."""
        longest = 0.0
        for moments in self.acks.values():
            marks = [since, *(moment for moment in list(moments) if since <= moment <= until), until]
            longest = max(longest, *(later - earlier for earlier, later in pairwise(marks)))
        return longest

    def _next(self) -> tuple[int, int]:
        self._number += 1
        return self._number, self._number % PARTITIONS

    def _acknowledge(self, value: int, partition: int) -> None:
        self.acknowledged[partition].append(value)
        self.acks[partition].append(time.monotonic())


class IdempotentLoad(Load):
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


class TransactionalLoad(Load):
    """Small transactions, every seventh of which is aborted on purpose."""

    transactional = True

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
                # In the log first: what librdkafka takes back before it was sent proves nothing. And when no partition
                # has been added yet it ends a transaction that never began, which brokers refuse.
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


def begin_transactions(bootstrap_servers: str) -> None:
    """Make the cluster coordinate transactions, which it does from the first one on."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": "the-first"})
    _insist(lambda: producer.init_transactions(30))


def _insist(action: Callable[[], object]) -> None:
    """Again while the client says that the same call may work later."""
    deadline = time.monotonic() + DELIVERY_MS / 1000
    while True:
        try:
            action()
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
