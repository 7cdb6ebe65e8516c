"""Appends batches to a Barnabas target unchanged: offsets, epochs, CRCs and markers of the source (AppendMirrored).

The target's log end offset is the position, so the mirror stores none. After a failure it fetches again from there.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from barnabas.client import Client, ClientError, error_code
from barnabas.client.producing import MAX_BYTES
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.mirror import (
    AppendedPartition,
    AppendMirroredRequest,
    AppendMirroredResponse,
    MirroredPartition,
    MirroredTopic,
)
from barnabas.services.mirror.partition import Payload, TargetPosition
from barnabas.services.mirror.plan import MirroredTopicIds

STALE = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""Errors after which the target's metadata must be refreshed."""


class AppendingTarget:
    """`topics` is keyed by source name; the caller updates it."""

    def __init__(
        self, client: Client, topics: Mapping[str, MirroredTopicIds], *, keep_deleted: bool = False
    ) -> None:
        self._client = client
        self._topics = topics
        self._keep_deleted = keep_deleted
        self._empty: set[TopicPartition] = set()
        self.bytes = 0

    async def target_positions(
        self, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, TargetPosition]:
        """Return the log end offsets by appending empty payloads."""
        empty = memoryview(b"")
        await self._client.refresh({self._topics[tp.topic].target for tp in partitions})
        found = await self.append([Payload(tp, empty, -1, -1, -1, -1, -1, 0.0) for tp in partitions])
        self._empty |= {tp for tp, position in found.items() if position.is_empty}
        return found

    async def append(self, payloads: Sequence[Payload]) -> Mapping[TopicPartition, TargetPosition]:
        """Append to all leaders concurrently, in requests of about 1 MiB, which fit into a broker's receive buffers."""
        found: dict[TopicPartition, TargetPosition] = {}
        requests = await self._requests(payloads, found)
        for answer in await asyncio.gather(*(self._send(leader, part) for leader, part in requests)):
            found |= answer
        self._empty -= {tp for tp, position in found.items() if not position.is_empty}
        stale = {self._topics[tp.topic].target for tp, each in found.items() if each.error in STALE}
        if stale:
            await self._client.refresh_quietly(stale)
        return found

    async def _requests(
        self, payloads: Iterable[Payload], failed: dict[TopicPartition, TargetPosition]
    ) -> list[tuple[int, list[Payload]]]:
        parts: dict[int, list[list[Payload]]] = defaultdict(lambda: [[]])
        sizes: dict[int, int] = defaultdict(int)
        for payload in payloads:
            try:
                leader, size = (
                    await self._client.leader(self._target_tp(payload.tp)),
                    len(payload.records),
                )
            except KafkaError as error:
                failed[payload.tp] = TargetPosition(-1, -1, False, error.code, str(error))
                continue
            if sizes[leader] + size > MAX_BYTES and parts[leader][-1]:
                parts[leader].append([])
                sizes[leader] = 0
            parts[leader][-1].append(payload)
            sizes[leader] += size
        return [(leader, part) for leader, lists in parts.items() for part in lists]

    async def _send(self, leader: int, payloads: Sequence[Payload]) -> dict[TopicPartition, TargetPosition]:
        request = AppendMirroredRequest(
            timeout_ms=int(self._client.request_timeout * 1000), topics=self._request_topics(payloads)
        )
        try:
            response: AppendMirroredResponse = await self._client.send_to_broker(leader, request)
        except ClientError as error:
            await self._client.refresh_quietly({self._topics[each.tp.topic].target for each in payloads})
            lost = TargetPosition(-1, -1, False, ErrorCode.NETWORK_EXCEPTION, str(error))
            return {each.tp: lost for each in payloads}
        self.bytes += sum(len(each.records) for each in payloads)
        names = {self._target_id(each.tp): each.tp.topic for each in payloads}
        return {
            TopicPartition(names[topic.topic_id], answer.index): _target_position(answer)
            for topic in response.topics
            if topic.topic_id in names
            for answer in topic.partitions
        }

    def _request_topics(self, payloads: Iterable[Payload]) -> list[MirroredTopic]:
        topics: dict[str, MirroredTopic] = {}
        for payload in payloads:
            name = payload.tp.topic
            if name not in topics:
                source_id = self._topics[name].source_id
                topics[name] = MirroredTopic(topic_id=self._target_id(payload.tp), source_topic_id=source_id)
            topics[name].partitions.append(self._request_partition(payload))
        return list(topics.values())

    def _request_partition(self, payload: Payload) -> MirroredPartition:
        metadata = self._client.metadata.partition(self._target_tp(payload.tp))
        follows = not self._keep_deleted or payload.tp in self._empty
        return MirroredPartition(
            index=payload.tp.partition,
            leader_epoch=metadata.leader_epoch,
            source_high_watermark=payload.high_watermark,
            source_log_start_offset=payload.log_start if follows else -1,
            truncate_to=payload.truncate_to,
            truncate_epoch=payload.truncate_epoch,
            expected_log_end=payload.expected_end,
            records=payload.records if len(payload.records) else None,
        )

    def _target_tp(self, tp: TopicPartition) -> TopicPartition:
        topic = self._topics.get(tp.topic)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{tp} is no longer mirrored")
        return TopicPartition(topic.target, tp.partition)

    def _target_id(self, tp: TopicPartition) -> bytes:
        return self._client.metadata.topics[self._topics[tp.topic].target].id


def _target_position(answer: AppendedPartition) -> TargetPosition:
    return TargetPosition(
        answer.log_end_offset,
        answer.last_epoch,
        answer.last_epoch < 0 and answer.log_start_offset == answer.log_end_offset,
        error_code(answer.error_code),
        answer.error_message or "",
    )
