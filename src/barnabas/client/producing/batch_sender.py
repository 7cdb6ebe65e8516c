"""Produce requests: encoded batches to the leaders of their partitions, to all leaders at once.

A sender has at most one batch per partition in flight, so that a retry never changes the order.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.client.cluster import Client
from barnabas.client.errors import ClientError, error_code, is_retriable
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

ALL = -1  # acks
MAX_BYTES = 1024 * 1024 - 4096
"""Of batches in one request, unless one is larger: Kafka's `max.request.size`, with room for the rest of the request.

Our broker receives frames of up to a MiB into memory that it uses again, and those that are larger into fresh pages.
"""
LAST_V1_PRODUCE = 11  # the last version of transactions V1: see transactional.py

Batches = Mapping[TopicPartition, bytes | bytearray]


class BatchPosition(NamedTuple):
    """Position of a batch in the log. The offset is -1 with acks=0."""

    base_offset: int
    log_append_time: int


NOT_ASKED = BatchPosition(-1, -1)


@dataclass(slots=True)
class SendResult:
    """Results and errors by batch, of one attempt."""

    appended: dict[TopicPartition, BatchPosition] = field(default_factory=dict)
    errors: dict[TopicPartition, Exception] = field(default_factory=dict)

    def raise_first(self) -> None:
        """Raise a non-retriable error if there is one, else the first error."""
        if self.errors:
            raise min(self.errors.values(), key=is_retriable)


class BatchSender:
    def __init__(self, client: Client, acks: int = ALL, transactional_id: str | None = None) -> None:
        self.client = client
        self.acks = acks
        self.transactional_id = transactional_id
        self.transactions_v2 = False

    async def send(self, batches: Batches, timeout_seconds: float | None = None) -> SendResult:
        """One attempt."""
        outcome = SendResult()
        try:
            requests = await self._by_leader(batches)
        except (ClientError, KafkaError) as error:
            outcome.errors = dict.fromkeys(batches, error)
            return outcome
        timeout_seconds = timeout_seconds or self.client.request_timeout
        await asyncio.gather(
            *(self._try(leader, part, timeout_seconds, outcome) for leader, part in requests)
        )
        return outcome

    async def _by_leader(self, batches: Batches) -> list[tuple[int, Batches]]:
        requests: dict[int, list[dict[TopicPartition, bytes | bytearray]]] = defaultdict(lambda: [{}])
        sizes: dict[int, int] = defaultdict(int)
        for tp, data in batches.items():
            leader = await self.client.leader(tp)
            if sizes[leader] + len(data) > MAX_BYTES and requests[leader][-1]:
                requests[leader].append({})
                sizes[leader] = 0
            requests[leader][-1][tp] = data
            sizes[leader] += len(data)
        return [(leader, part) for leader, parts in requests.items() for part in parts if part]

    async def _try(self, leader: int, part: Batches, timeout_seconds: float, outcome: SendResult) -> None:
        try:
            await self._produce(leader, part, timeout_seconds, outcome)
        except (ClientError, KafkaError) as error:
            outcome.errors.update(dict.fromkeys(part, error))

    async def _produce(self, leader: int, part: Batches, timeout_seconds: float, outcome: SendResult) -> None:
        connection = await self.client.connection_to(leader)
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=self.acks,
            timeout_ms=int(timeout_seconds * 1000),
            topic_data=self._topics(part),
        )
        if not self.acks:
            await connection.send_without_answer(request)
            outcome.appended.update(dict.fromkeys(part, NOT_ASKED))
            return
        version = connection.version_for(ProduceRequest)
        if self.transactional_id is not None and not self.transactions_v2:
            version = min(version, LAST_V1_PRODUCE)
        answers = self._answers(await connection.send(request, version, timeout_seconds))
        for tp in part:
            answer = answers.get(tp)
            if (error := _error(tp, answer)) is not None:
                outcome.errors[tp] = error
            elif answer is not None:
                outcome.appended[tp] = BatchPosition(answer.base_offset, answer.log_append_time_ms)

    def _topics(self, part: Batches) -> list[TopicProduceData]:
        topics: dict[str, TopicProduceData] = {}
        for tp, data in part.items():
            if tp.topic not in topics:
                topic_id = self.client.metadata.topics[tp.topic].id
                topics[tp.topic] = TopicProduceData(name=tp.topic, topic_id=topic_id)
            topics[tp.topic].partition_data.append(
                PartitionProduceData(index=tp.partition, records=bytes(data))
            )
        return list(topics.values())

    def _answers(self, response: ProduceResponse) -> dict[TopicPartition, PartitionProduceResponse]:
        names = self.client.metadata.topic_names
        return {
            TopicPartition(topic.name or names.get(topic.topic_id, ""), answer.index): answer
            for topic in response.responses
            for answer in topic.partition_responses
        }


def _error(tp: TopicPartition, answer: PartitionProduceResponse | None) -> KafkaError | None:
    """Error of a partition, with the broker's message."""
    if answer is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the response does not contain {tp}")
    code = error_code(answer.error_code)
    if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        return None
    details = [error.batch_index_error_message for error in answer.record_errors]
    text = answer.error_message or f"{tp} rejected the records"
    return KafkaError(code, "; ".join([text, *(detail for detail in details if detail)]))
