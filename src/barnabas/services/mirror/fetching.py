"""Fetches raw batches from the leaders of a source, with one fetch session per leader (KIP-227).

Idle partitions cost nothing: requests contain only changed positions, and responses only partitions with new data.
Every fetch includes the topic id, the leader epoch and the epoch of the last fetched batch, to detect a recreated
topic, a stale leader, and a diverging log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.client import Client, error_code, raise_for
from barnabas.client.offsets import EARLIEST, LATEST, list_offsets_once
from barnabas.client.producing import MAX_BYTES
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition, Uuid
from barnabas.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from barnabas.services.mirror.partition import FetchResult

FIRST_EPOCH = 0  # requests a new session
LAST_EPOCH = 0x7FFFFFFF
WITH_TOPIC_IDS = 13  # version of Fetch
SESSION_LOST = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class FetchRange(NamedTuple):
    """Fetch position of one partition."""

    topic_id: Uuid
    offset: int
    last_epoch: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class FetchLimits:
    max_wait: float = 0.5
    max_bytes: int = 8 * 1024 * 1024
    partition_bytes: int = MAX_BYTES
    """Limit per partition: the size of one append request."""
    committed_only: bool = False


class MirrorFetchSession:
    """Fetch session with one leader. After any error the next request opens a new session."""

    def __init__(self, client: Client, leader: int, limits: FetchLimits) -> None:
        self._client = client
        self._leader = leader
        self._limits = limits
        self.reset()

    def reset(self) -> None:
        self._id = 0
        self._epoch = FIRST_EPOCH
        self._known: dict[TopicPartition, FetchRange] = {}

    async def fetch(
        self, partitions: Mapping[TopicPartition, FetchRange]
    ) -> list[tuple[TopicPartition, FetchResult]]:
        """Fetch new batches, waiting up to `max_wait`. Partitions without new data may be missing."""
        request = self.request(partitions)
        try:
            within = self._client.request_timeout + self._limits.max_wait
            response: FetchResponse = await self._client.send_to_broker(self._leader, request, within)
            return list(self.answered(response, partitions))
        except BaseException:
            self.reset()
            raise

    def request(self, partitions: Mapping[TopicPartition, FetchRange]) -> FetchRequest:
        """Build a request with the changed positions and the partitions to remove from the session."""
        known = self._known
        changed = {tp: want for tp, want in partitions.items() if known.get(tp) != want}
        revoked = [tp for tp in known if tp not in partitions]
        limits = self._limits
        request = FetchRequest(
            max_wait_ms=int(limits.max_wait * 1000),
            min_bytes=1,
            max_bytes=limits.max_bytes,
            isolation_level=int(limits.committed_only),
            session_id=self._id,
            session_epoch=self._epoch,
            topics=_fetch_topics(changed, limits.partition_bytes),
            forgotten_topics_data=_forgotten(revoked, known),
        )
        self._known = dict(partitions)
        return request

    def answered(
        self, response: FetchResponse, partitions: Mapping[TopicPartition, FetchRange]
    ) -> Iterator[tuple[TopicPartition, FetchResult]]:
        """Yield the results. A lost session yields none and is not an error: the next request opens a new one."""
        code = error_code(response.error_code)
        if code in SESSION_LOST:
            self.reset()
            return
        raise_for(code, f"broker {self._leader} of the source rejects fetches")
        if response.session_id == 0:
            self.reset()  # no session available on the broker: send full requests
        else:
            self._id = response.session_id
            self._epoch = 1 if self._epoch == LAST_EPOCH else self._epoch + 1
        names = {want.topic_id: tp.topic for tp, want in partitions.items()}
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for data in topic.partitions:
                tp = TopicPartition(name, data.partition_index)
                if tp in partitions:
                    if data.error_code:
                        self._known.pop(tp, None)  # include it in the next request even if it is unchanged
                    yield tp, fetched_of(partitions[tp].offset, data, self._limits.committed_only)


def fetched_of(offset: int, data: PartitionData, committed_only: bool) -> FetchResult:
    diverging = data.diverging_epoch
    aborted = sorted((txn.first_offset, txn.producer_id) for txn in data.aborted_transactions or ())
    return FetchResult(
        offset,
        error_code(data.error_code),
        memoryview(data.records or b""),
        data.last_stable_offset if committed_only else data.high_watermark,
        data.log_start_offset,
        tuple((producer_id, first) for first, producer_id in aborted),
        diverging.end_offset if diverging.epoch >= 0 or diverging.end_offset >= 0 else -1,
        diverging.epoch,
    )


async def with_bounds(client: Client, tp: TopicPartition, fetched: FetchResult) -> FetchResult:
    """Add log start and end offsets, which Kafka does not return with OFFSET_OUT_OF_RANGE."""
    first = (await list_offsets_once(client, {tp: EARLIEST}))[tp].offset
    end = (await list_offsets_once(client, {tp: LATEST}))[tp].offset
    return fetched._replace(log_start=first, high_watermark=end)


async def log_starts(client: Client, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    found = await list_offsets_once(client, dict.fromkeys(partitions, EARLIEST))
    return {tp: answer.offset for tp, answer in found.items()}


async def check_speaks_topic_ids(client: Client) -> None:
    """Raise KafkaError if the source has no topic ids: a recreated topic would go unnoticed."""
    connection = await client.any_connection()
    if connection.version_for(FetchRequest) < WITH_TOPIC_IDS:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"the source at {connection.address} is older than Kafka 3.1 and has no topic ids: upgrade it first",
        )


def _fetch_topics(changed: Mapping[TopicPartition, FetchRange], partition_bytes: int) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for (name, index), want in changed.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = FetchTopic(topic=name, topic_id=want.topic_id)
        topic.partitions.append(
            FetchPartition(
                partition=index,
                current_leader_epoch=want.leader_epoch,
                fetch_offset=want.offset,
                last_fetched_epoch=want.last_epoch,
                partition_max_bytes=partition_bytes,
            )
        )
    return list(topics.values())


def _forgotten(
    revoked: list[TopicPartition], known: Mapping[TopicPartition, FetchRange]
) -> list[ForgottenTopic]:
    topics: dict[str, ForgottenTopic] = {}
    for tp in revoked:
        topic = topics.setdefault(tp.topic, ForgottenTopic(topic=tp.topic, topic_id=known[tp].topic_id))
        topic.partitions.append(tp.partition)
    return list(topics.values())
