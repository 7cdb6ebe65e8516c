"""Raw batches from the leaders of a source: one fetch session for each of them (KIP-227).

A session asks for what has changed since the last request, and the broker answers with what is new: a thousand quiet
partitions cost nothing. Every fetch names the topic id, the leader epoch and the epoch of the last batch that was
fetched, so that another topic of the same name, a stale leader and another log are all noticed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.client import Client, raise_for
from barnabas.client.errors import error_code
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

FIRST_EPOCH = 0  # asks for a session
LAST_EPOCH = 0x7FFFFFFF
WITH_TOPIC_IDS = 13  # of Fetch
SESSION_LOST = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class FetchRange(NamedTuple):
    """What to fetch of one partition."""

    topic_id: Uuid
    offset: int
    last_epoch: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class FetchLimits:
    max_wait: float = 0.5
    max_bytes: int = 8 * 1024 * 1024
    partition_bytes: int = MAX_BYTES
    """What goes on in one request."""
    committed_only: bool = False


class MirrorFetchSession:
    """With one leader. Whatever goes wrong, the next request begins a new session."""

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
        self, wanted: Mapping[TopicPartition, FetchRange]
    ) -> list[tuple[TopicPartition, FetchResult]]:
        """What is new, at the latest after `max_wait`. Partitions that have nothing new may be missing."""
        request = self.request(wanted)
        try:
            within = self._client.request_timeout + self._limits.max_wait
            response: FetchResponse = await self._client.send_to_broker(self._leader, request, within)
            return list(self.answered(response, wanted))
        except BaseException:
            self.reset()
            raise

    def request(self, wanted: Mapping[TopicPartition, FetchRange]) -> FetchRequest:
        """Positions that the session does not have yet, and partitions that it shall forget."""
        known = self._known
        changed = {tp: want for tp, want in wanted.items() if known.get(tp) != want}
        gone = [tp for tp in known if tp not in wanted]
        limits = self._limits
        request = FetchRequest(
            max_wait_ms=int(limits.max_wait * 1000),
            min_bytes=1,
            max_bytes=limits.max_bytes,
            isolation_level=int(limits.committed_only),
            session_id=self._id,
            session_epoch=self._epoch,
            topics=_fetch_topics(changed, limits.partition_bytes),
            forgotten_topics_data=_forgotten(gone, known),
        )
        self._known = dict(wanted)
        return request

    def answered(
        self, response: FetchResponse, wanted: Mapping[TopicPartition, FetchRange]
    ) -> Iterator[tuple[TopicPartition, FetchResult]]:
        """A session that the broker has lost is no error: nothing came, and the next request begins another."""
        code = error_code(response.error_code)
        if code in SESSION_LOST:
            self.reset()
            return
        raise_for(code, f"broker {self._leader} of the source refuses to be read from")
        if response.session_id == 0:
            self.reset()  # it has no room for a session: every request is a whole one
        else:
            self._id = response.session_id
            self._epoch = 1 if self._epoch == LAST_EPOCH else self._epoch + 1
        names = {want.topic_id: tp.topic for tp, want in wanted.items()}
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for data in topic.partitions:
                tp = TopicPartition(name, data.partition_index)
                if tp in wanted:
                    if data.error_code:
                        self._known.pop(tp, None)  # to be asked for again even if nothing changes
                    yield tp, fetched_of(wanted[tp].offset, data, self._limits.committed_only)


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
    """Kafka does not say with OFFSET_OUT_OF_RANGE where the log begins and ends."""
    first = (await list_offsets_once(client, {tp: EARLIEST}))[tp].offset
    end = (await list_offsets_once(client, {tp: LATEST}))[tp].offset
    return fetched._replace(log_start=first, high_watermark=end)


async def log_starts(client: Client, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    found = await list_offsets_once(client, dict.fromkeys(partitions, EARLIEST))
    return {tp: answer.offset for tp, answer in found.items()}


async def check_speaks_topic_ids(client: Client) -> None:
    """Without topic ids a topic that was created again could not be told from the old one."""
    connection = await client.any_connection()
    if connection.version_for(FetchRequest) < WITH_TOPIC_IDS:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"the source at {connection.address} is older than Kafka 3.1 and knows no topic ids: upgrade it first",
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
    gone: list[TopicPartition], known: Mapping[TopicPartition, FetchRange]
) -> list[ForgottenTopic]:
    topics: dict[str, ForgottenTopic] = {}
    for tp in gone:
        topic = topics.setdefault(tp.topic, ForgottenTopic(topic=tp.topic, topic_id=known[tp].topic_id))
        topic.partitions.append(tp.partition)
    return list(topics.values())
