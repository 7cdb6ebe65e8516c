"""Consumers of several libraries behind one interface: they run in threads and record what they processed."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

SESSION_MS = 6000


class Processed:
    """How often each (partition, offset) was processed, by all consumers of a test together."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[int, int]] = Counter()
        self._lock = threading.Lock()

    def add(self, partition: int, offset: int) -> None:
        with self._lock:
            self.counts[(partition, offset)] += 1

    def __len__(self) -> int:
        with self._lock:
            return len(self.counts)

    def includes(self, places: set[tuple[int, int]]) -> bool:
        with self._lock:
            return places <= self.counts.keys()

    @property
    def repeated(self) -> int:
        return sum(count - 1 for count in self.counts.values())


RUNNING: list[Worker | Load] = []
"""What a test has started and not stopped: it failed, and `stop_all` keeps it from disturbing the next one."""


def stop_all() -> None:
    while RUNNING:
        RUNNING.pop().give_up()


class Worker(threading.Thread, ABC):
    """One member of a group: polls, notes, commits; `leave` closes it in order."""

    def __init__(self, bootstrap: str, topic: str, group: str, processed: Processed, **settings: Any) -> None:
        super().__init__(daemon=True)
        self.bootstrap = bootstrap
        self.topic = topic
        self.group = group
        self.processed = processed
        self.settings = settings
        self.assigned: set[int] = set()
        self.rebalances = 0
        self.failure: BaseException | None = None
        self._leaving = threading.Event()
        RUNNING.append(self)
        self.start()

    def run(self) -> None:
        try:
            self.consume(self._leaving.is_set)
        except BaseException as error:
            self.failure = error
            raise

    @abstractmethod
    def consume(self, is_leaving: Callable[[], bool]) -> None:
        """Work until it is time to leave."""

    def give_up(self) -> None:
        self._leaving.set()
        self.join(10)

    def leave(self) -> None:
        if self in RUNNING:
            RUNNING.remove(self)
        self._leaving.set()
        self.join(60)
        assert not self.is_alive(), "the consumer does not close"
        assert self.failure is None, self.failure


class ConfluentWorker(Worker):
    PROTOCOL: ClassVar[dict[str, Any]] = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 100}

    def consume(self, is_leaving: Callable[[], bool]) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
                **self.PROTOCOL,
                **{name.replace("_", "."): value for name, value in self.settings.items()},
            }
        )
        consumer.subscribe([self.topic], on_assign=self._assigned, on_revoke=self._revoked)
        while not is_leaving():
            messages = consumer.consume(100, 0.1)
            for message in messages:
                partition, offset = message.partition(), message.offset()
                if message.error() is None and partition is not None and offset is not None:
                    self.processed.add(partition, offset)
            if messages:
                self._commit(consumer)
        consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.rebalances += 1
        self.assigned |= {place.partition for place in partitions}

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned -= {place.partition for place in partitions}

    def _commit(self, consumer: Consumer) -> None:
        # If a rebalance is faster, the next owner repeats the work.
        with suppress(KafkaException):
            consumer.commit(asynchronous=False)


class ConsumerProtocolWorker(ConfluentWorker):
    """Uses the protocol of KIP-848, and commits its work before a partition is revoked."""

    PROTOCOL: ClassVar[dict[str, Any]] = {"group.protocol": "consumer"}

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit(consumer)
        super()._revoked(consumer, partitions)


class KafkaPythonWorker(Worker):
    def consume(self, is_leaving: Callable[[], bool]) -> None:
        from kafka import KafkaConsumer
        from kafka.errors import KafkaError

        consumer = KafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=100,
            metadata_max_age_ms=1000,  # it may assign before it knows the topic, and checks only then
            **self.settings,
        )
        while not is_leaving():
            batches = consumer.poll(100)
            for place, records in batches.items():
                for record in records:
                    self.processed.add(place.partition, record.offset)
            self.assigned = {place.partition for place in consumer.assignment()}
            if batches:
                try:
                    consumer.commit()
                except KafkaError:
                    continue
        consumer.close()


class AiokafkaWorker(Worker):
    def consume(self, is_leaving: Callable[[], bool]) -> None:
        asyncio.run(self._consume(is_leaving))

    async def _consume(self, is_leaving: Callable[[], bool]) -> None:
        from aiokafka import AIOKafkaConsumer
        from aiokafka.errors import KafkaError

        consumer = AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=100,
            **self.settings,
        )
        await consumer.start()
        while not is_leaving():
            batches = await consumer.getmany(timeout_ms=100)
            for place, records in batches.items():
                for record in records:
                    self.processed.add(place.partition, record.offset)
            self.assigned = {place.partition for place in consumer.assignment()}
            if batches:
                try:
                    await consumer.commit()
                except KafkaError:
                    continue
        await consumer.stop()


class Load(threading.Thread):
    """Numbered records, round robin, until it is stopped; records acknowledged offsets."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, per_second: int = 1000) -> None:
        super().__init__(daemon=True)
        self.acknowledged: set[tuple[int, int]] = set()
        self._topic = topic
        self._partitions = partitions
        self._pause = 10 / per_second
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "linger.ms": 1,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._stopping = threading.Event()
        RUNNING.append(self)
        self.start()

    def run(self) -> None:
        number = 0
        while not self._stopping.wait(self._pause):
            for _ in range(10):
                number += 1
                self._producer.produce(
                    self._topic, b"%d" % number, partition=number % self._partitions, on_delivery=self._done
                )
            self._producer.poll(0)

    def _done(self, error: object, message: Any) -> None:
        assert error is None, error
        self.acknowledged.add((message.partition(), message.offset()))

    def give_up(self) -> None:
        self._stopping.set()
        self.join(10)

    def stop(self) -> set[tuple[int, int]]:
        """Everything that was acknowledged: (partition, offset)."""
        if self in RUNNING:
            RUNNING.remove(self)
        self._stopping.set()
        self.join()
        assert self._producer.flush(60) == 0
        return self.acknowledged
