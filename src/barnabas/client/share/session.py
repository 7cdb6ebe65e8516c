"""Share session with one leader: session epochs and the partitions known to the leader.

Requests of a session are sequential; a failure ends the session, and the next request opens a new one.
Acknowledgements of the old session are lost: the leader releases the locked records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from barnabas.client.cluster import Client, raise_for
from barnabas.client.errors import error_code
from barnabas.client.share.acquired import (
    AcknowledgeType,
    AcquiredRecord,
    Answers,
    Refusal,
    open_acquired,
    to_batches,
)
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.share import (
    AcknowledgePartition,
    AcknowledgeTopic,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchPartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)

OPENING, CLOSING = 0, -1
_LAST_EPOCH = 2**31 - 1
WHOLE_BATCHES, RECORD_LIMIT = 0, 1  # acquire modes (KIP-1206)
EXACT_BELOW = 100
MAX_BYTES = 50 << 20


class ShareFetchResult(NamedTuple):
    """Result of one request. `gaps` are acquired offsets without a record, which must be acknowledged."""

    taken: list[AcquiredRecord]
    gaps: dict[TopicPartition, Answers]
    refusals: list[Refusal]
    errors: list[KafkaError]


class ClientShareSession:
    def __init__(self, client: Client, leader: int, group: str, member_id: str) -> None:
        self._client = client
        self._leader = leader
        self._group = group
        self._member_id = member_id
        self._epoch = OPENING
        self._partitions: frozenset[TopicPartition] = frozenset()
        self._turn = asyncio.Lock()

    async def fetch(
        self,
        partitions: frozenset[TopicPartition],
        answers: Mapping[TopicPartition, Answers],
        limit: int,
        wait: float,
    ) -> ShareFetchResult:
        """Acquire up to `limit` records and piggyback acknowledgements."""
        async with self._turn:
            refusals: list[Refusal] = []
            if self._epoch == OPENING and answers:
                refusals, answers = lost(answers), {}
            request = self._fetch_request(partitions, answers, limit, wait)
            response: ShareFetchResponse = await self._send(request, wait)
            self._partitions = partitions
            return self._open(response, answers, refusals)

    def _fetch_request(
        self,
        partitions: frozenset[TopicPartition],
        answers: Mapping[TopicPartition, Answers],
        limit: int,
        wait: float,
    ) -> ShareFetchRequest:
        named = (partitions if self._epoch == OPENING else partitions - self._partitions) | answers.keys()
        topics: dict[bytes, FetchTopic] = {}
        for tp in sorted(named):
            topic_id = self._topic_id(tp)
            batches = to_batches(answers.get(tp, {}))
            topic = topics.setdefault(topic_id, FetchTopic(topic_id=topic_id))
            topic.partitions.append(
                FetchPartition(partition_index=tp.partition, acknowledgement_batches=batches)
            )
        return ShareFetchRequest(
            group_id=self._group,
            member_id=self._member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=int(wait * 1000),
            min_bytes=1,
            max_bytes=MAX_BYTES,
            max_records=limit,
            batch_size=limit,
            share_acquire_mode=RECORD_LIMIT if limit < EXACT_BELOW else WHOLE_BATCHES,
            topics=list(topics.values()),
            forgotten_topics_data=self._forgotten(self._partitions - partitions),
        )

    def _forgotten(self, partitions: Iterable[TopicPartition]) -> list[ForgottenTopic]:
        topics: dict[bytes, ForgottenTopic] = {}
        for tp in sorted(partitions):
            topic_id = self._topic_id(tp)
            topics.setdefault(topic_id, ForgottenTopic(topic_id=topic_id)).partitions.append(tp.partition)
        return list(topics.values())

    def _open(
        self,
        response: ShareFetchResponse,
        answers: Mapping[TopicPartition, Answers],
        refusals: list[Refusal],
    ) -> ShareFetchResult:
        fetched = ShareFetchResult([], {}, refusals, [])
        names = self._client.metadata.topic_names
        for topic in response.responses:
            for data in topic.partitions:
                tp = TopicPartition(names.get(topic.topic_id, ""), data.partition_index)
                self._open_partition(tp, data, answers.get(tp, {}), fetched)
        return fetched

    def _open_partition(
        self, tp: TopicPartition, data: ShareFetchPartitionData, answers: Answers, fetched: ShareFetchResult
    ) -> None:
        if data.acknowledge_error_code:
            error = KafkaError(error_code(data.acknowledge_error_code), data.acknowledge_error_message or "")
            fetched.refusals.append(Refusal(tp, tuple(answers), error))
        if data.error_code:
            error = KafkaError(
                error_code(data.error_code), data.error_message or f"cannot acquire records of {tp}"
            )
            fetched.errors.append(error)
            return
        taken, gaps = open_acquired(tp, memoryview(data.records or b""), data.acquired_records)
        fetched.taken.extend(taken)
        if gaps:
            fetched.gaps[tp] = gaps

    async def acknowledge(self, answers: Mapping[TopicPartition, Answers]) -> list[Refusal]:
        """Acknowledge now, without acquiring records."""
        async with self._turn:
            if self._epoch == OPENING:
                return lost(answers)
            response: ShareAcknowledgeResponse = await self._send(self._acknowledge_request(answers))
            return self._refusals(response, answers)

    async def close(self, answers: Mapping[TopicPartition, Answers]) -> list[Refusal]:
        """Send the last acknowledgements; the leader releases the other records."""
        async with self._turn:
            if self._epoch == OPENING:
                return lost(answers)
            self._epoch = CLOSING
            response: ShareAcknowledgeResponse = await self._send(self._acknowledge_request(answers))
            return self._refusals(response, answers)

    def _acknowledge_request(self, answers: Mapping[TopicPartition, Answers]) -> ShareAcknowledgeRequest:
        topics: dict[bytes, AcknowledgeTopic] = {}
        for tp, value in sorted(answers.items()):
            topic_id = self._topic_id(tp)
            partition = AcknowledgePartition(
                partition_index=tp.partition, acknowledgement_batches=to_batches(value)
            )
            topics.setdefault(topic_id, AcknowledgeTopic(topic_id=topic_id)).partitions.append(partition)
        renews = any(
            answer is AcknowledgeType.RENEW for value in answers.values() for answer in value.values()
        )
        return ShareAcknowledgeRequest(
            group_id=self._group,
            member_id=self._member_id,
            share_session_epoch=self._epoch,
            is_renew_ack=renews,
            topics=list(topics.values()),
        )

    def _refusals(
        self, response: ShareAcknowledgeResponse, answers: Mapping[TopicPartition, Answers]
    ) -> list[Refusal]:
        names = self._client.metadata.topic_names
        refusals = []
        for topic in response.responses:
            for data in topic.partitions:
                if data.error_code:
                    tp = TopicPartition(names.get(topic.topic_id, ""), data.partition_index)
                    error = KafkaError(error_code(data.error_code), data.error_message or "")
                    refusals.append(Refusal(tp, tuple(answers.get(tp, ())), error))
        return refusals

    async def _send(self, request: ShareFetchRequest | ShareAcknowledgeRequest, wait: float = 0.0) -> Any:
        epoch, self._epoch = self._epoch, OPENING  # any failure from here on ends the session
        timeout = self._client.request_timeout + wait
        response = await self._client.send_to_broker(self._leader, request, timeout)
        raise_for(response.error_code, response.error_message or "")
        if epoch != CLOSING:
            self._epoch = epoch + 1 if epoch < _LAST_EPOCH else 1
        return response

    def _topic_id(self, tp: TopicPartition) -> bytes:
        return self._client.metadata.topics[tp.topic].id


def lost(answers: Mapping[TopicPartition, Answers]) -> list[Refusal]:
    error = KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND, "the session with the leader has ended meanwhile")
    return [Refusal(tp, tuple(value), error) for tp, value in answers.items()]
