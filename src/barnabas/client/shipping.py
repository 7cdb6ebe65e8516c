"""Batches that are already encoded, on their way: one of each partition at a time, to all leaders at once."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Protocol

from barnabas.client.backoff import Backoff, Deadline
from barnabas.client.cluster import Client, is_retriable
from barnabas.client.errors import error_code
from barnabas.client.lane import Identity
from barnabas.client.producer import ALL
from barnabas.client.transactional import LAST_V1_PRODUCE, Transactions
from barnabas.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from barnabas.records.batch import NO_SEQUENCE, add_to_sequence
from barnabas.types import TopicPartition

MOST_BYTES = 1024 * 1024 - 4096
"""Of batches in one request, unless one is larger: Kafka's `max.request.size`, with room for the rest of the request.

Our broker receives frames of up to a MiB into memory that it uses again, and those that are larger into fresh pages.
"""


class Sealable(Protocol):
    """A batch that waits for its producer."""

    @property
    def place(self) -> TopicPartition: ...

    @property
    def count(self) -> int: ...

    def seal(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool
    ) -> bytearray: ...


class Shipper:
    """Sends under one identity. After an exception it must not be used again: what arrived is not known."""

    def __init__(
        self,
        client: Client,
        identity: Identity | None = None,
        transactional_id: str | None = None,
        acks: int = ALL,
    ) -> None:
        self.client = client
        self.identity = identity or Identity()
        self.transactional_id = transactional_id
        self._acks = acks
        self._sequences: dict[TopicPartition, int] = {}

    async def send(self, batches: Iterable[Sealable]) -> None:
        """Returns when the leaders have acknowledged all of them."""
        queues: dict[TopicPartition, deque[tuple[int, bytearray]]] = defaultdict(deque)
        for batch in batches:
            queues[batch.place].append((batch.count, self._seal(batch)))
        while queues:
            wave = {place: queue[0][1] for place, queue in queues.items()}
            await self._deliver(wave)
            for place in wave:
                queues[place].popleft()
                if not queues[place]:
                    del queues[place]

    def _seal(self, batch: Sealable) -> bytearray:
        identity = self.identity
        if identity.epoch < 0:
            return batch.seal(identity.producer_id, identity.epoch, NO_SEQUENCE, transactional=False)
        sequence = self._sequences.get(batch.place, 0)
        self._sequences[batch.place] = add_to_sequence(sequence, batch.count)
        transactional = self.transactional_id is not None
        return batch.seal(identity.producer_id, identity.epoch, sequence, transactional=transactional)

    async def _deliver(self, wave: dict[TopicPartition, bytearray]) -> None:
        """At most one batch of a partition is under way, so that a repetition never changes the order."""
        deadline, backoff = Deadline(self.client.total_timeout), Backoff()
        while True:
            failed, error = await self._attempt(wave)
            if error is None:
                return
            if deadline.passed or not is_retriable(error):
                raise error
            wave = failed
            await backoff.wait(deadline)
            await self.client.refresh_quietly({place.topic for place in wave})

    async def _attempt(
        self, wave: dict[TopicPartition, bytearray]
    ) -> tuple[dict[TopicPartition, bytearray], Exception | None]:
        """What is to be sent again, and why; a reason that time does not heal goes first."""
        try:
            requests = await self._by_leader(wave)
        except Exception as error:
            return wave, error
        results = await asyncio.gather(
            *(self._produce(leader, part) for leader, part in requests), return_exceptions=True
        )
        failed: dict[TopicPartition, bytearray] = {}
        errors: list[Exception] = []
        for (_, part), result in zip(requests, results, strict=True):
            if isinstance(result, BaseException):
                if not isinstance(result, Exception):
                    raise result
                failed.update(part)
                errors.append(result)
            else:
                failed.update({place: part[place] for place in result})
                errors += result.values()
        errors.sort(key=is_retriable)
        return failed, errors[0] if errors else None

    async def _by_leader(
        self, wave: dict[TopicPartition, bytearray]
    ) -> list[tuple[int, dict[TopicPartition, bytearray]]]:
        requests: dict[int, list[dict[TopicPartition, bytearray]]] = defaultdict(lambda: [{}])
        sizes: dict[int, int] = defaultdict(int)
        for place, data in wave.items():
            leader = await self.client.leader(place)
            if sizes[leader] + len(data) > MOST_BYTES and requests[leader][-1]:
                requests[leader].append({})
                sizes[leader] = 0
            requests[leader][-1][place] = data
            sizes[leader] += len(data)
        return [(leader, part) for leader, parts in requests.items() for part in parts if part]

    async def _produce(
        self, leader: int, part: dict[TopicPartition, bytearray]
    ) -> dict[TopicPartition, Exception]:
        connection = await self.client.connection_to(leader)
        within = self.client.request_timeout
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=self._acks,
            timeout_ms=int(within * 1000),
            topic_data=self._topics(part),
        )
        if not self._acks:
            await connection.send_without_answer(request)
            return {}
        version = connection.version_for(ProduceRequest)
        if self.transactional_id is not None:
            version = min(version, LAST_V1_PRODUCE)
        response = await connection.send(request, version, within)
        names = self.client.metadata.topic_names
        answers = {
            TopicPartition(topic.name or names.get(topic.topic_id, ""), answer.index): answer
            for topic in response.responses
            for answer in topic.partition_responses
        }
        return {place: error for place in part if (error := _error(place, answers.get(place))) is not None}

    def _topics(self, part: dict[TopicPartition, bytearray]) -> list[TopicProduceData]:
        topics: dict[str, TopicProduceData] = {}
        for place, data in part.items():
            if place.topic not in topics:
                topic_id = self.client.metadata.topics[place.topic].id
                topics[place.topic] = TopicProduceData(name=place.topic, topic_id=topic_id)
            topics[place.topic].partition_data.append(
                PartitionProduceData(index=place.partition, records=bytes(data))
            )
        return list(topics.values())


class TransactionalShipper(Shipper):
    """Has partitions join the transaction before the first batch goes to them."""

    def __init__(self, transactions: Transactions, identity: Identity, transactional_id: str) -> None:
        super().__init__(transactions.client, identity, transactional_id)
        self._transactions = transactions
        self._id = transactional_id
        self._joined: set[TopicPartition] = set()

    async def send(self, batches: Iterable[Sealable]) -> None:
        given = list(batches)
        if places := {batch.place for batch in given} - self._joined:
            await self._transactions.add_partitions(self._id, self.identity, places)
            self._joined |= places
        await super().send(given)

    @property
    def is_open(self) -> bool:
        return bool(self._joined)

    async def end(self, *, committed: bool) -> None:
        """The next batch begins the next transaction."""
        if self._joined:
            await self._transactions.end(self._id, self.identity, committed=committed)
            self._joined.clear()


def _error(place: TopicPartition, answer: PartitionProduceResponse | None) -> KafkaError | None:
    if answer is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the leader's answer leaves out {place}")
    code = error_code(answer.error_code)
    if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        return None
    details = [error.batch_index_error_message for error in answer.record_errors]
    text = answer.error_message or f"{place} did not take the records"
    return KafkaError(code, "; ".join([text, *(detail for detail in details if detail)]))
