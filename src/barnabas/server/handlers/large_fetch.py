"""Fetches of very many partitions: opened, read and answered a turn of the loop at a time.

What `handlers/fetch` does at once has rests in between here. News of a partition must not be lost in one: a partition
without anything to read is watched from the moment at which it was looked at, and is ready again when it changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from barnabas.log.log import Log
from barnabas.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from barnabas.replication.partition import NO_EPOCH, Partition
from barnabas.server.fetch_sessions import NO_REPLICA, NO_SESSION, FetchEntry, FetchSession, key_of
from barnabas.server.slices import Level, slices, with_value
from barnabas.server.turns import RequestTurn
from barnabas.types import Uuid

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.server.dispatch import Request

READ_AT_ONCE = 1_000
"""Partitions; some milliseconds' work."""

STEP = 50
_PARTITIONS = (Level("partitions", ""),)

Found = tuple[FetchEntry, Partition | None, PartitionData]


def parts_of(message: FetchRequest) -> Iterator[FetchRequest]:
    """Requests that name some of the partitions each, and forget none."""
    rest = with_value(message, "forgotten_topics_data", [])
    topics: list[FetchTopic]
    for topics in slices(message.topics, _PARTITIONS, READ_AT_ONCE):
        yield with_value(rest, "topics", topics)


def is_news(entry: FetchEntry, data: PartitionData) -> bool:
    """Would the client learn something from this?"""
    return (
        bool(data.records)
        or data.error_code != 0
        or data.high_watermark != entry.sent_high_watermark
        or data.log_start_offset != entry.sent_log_start
        or data.diverging_epoch.epoch != NO_EPOCH
        or data.preferred_read_replica != NO_REPLICA
    )


class FetchInTurns:
    """One attempt to answer a fetch of many partitions; `Fetching` is one of these."""

    __slots__ = ()

    _broker: Broker
    _request: Request
    _session: FetchSession
    _held_back: set[FetchEntry]
    _max_bytes: int
    _min_bytes: int

    def _find(self, entry: FetchEntry) -> Partition | None:
        raise NotImplementedError

    def _read(
        self, entry: FetchEntry, partition: Partition | None, left: int, at_least_one: bool
    ) -> PartitionData:
        raise NotImplementedError

    def _lacks_room(self, entry: FetchEntry, partition: Partition | None, data: PartitionData) -> bool:
        raise NotImplementedError

    def _end(self) -> None:
        raise NotImplementedError

    async def _attempt_in_turns(self, final: bool) -> FetchResponse | None:
        """The response, or None when there is too little to be worth one and time is left."""
        session, turn = self._session, RequestTurn()
        await self._warm_in_turns(turn)
        found: list[Found] = []
        total, failed, crowded, left = 0, False, False, self._max_bytes
        for number, entry in enumerate(list(session.entries.values() if session.full else session.ready)):
            if left <= 0 and not session.full:
                break
            partition = self._find(entry)
            data = self._read(entry, partition, left, at_least_one=total == 0)
            size = len(data.records) if data.records is not None else 0
            if not size and total and self._lacks_room(entry, partition, data):
                self._held_back.add(entry)
                crowded = True
            total += size
            left -= size
            failed = failed or data.error_code != 0 or data.preferred_read_replica >= 0
            found.append((entry, partition, data))
            self._watch_if_idle(entry, partition, data)
            if not number % STEP and turn.is_over():
                await turn.rest()
        if total >= self._min_bytes or failed or crowded or final or not session.entries:
            return await self._answer_in_turns(found, turn)
        await self._keep_in_turns(found, turn)
        return None

    def _watch_if_idle(self, entry: FetchEntry, partition: Partition | None, data: PartitionData) -> None:
        is_idle = not data.records and not data.error_code and entry not in self._held_back
        if partition is not None and is_idle:
            self._session.ready.pop(entry, None)
            entry.watch(partition)

    async def _warm_in_turns(self, turn: RequestTurn) -> None:
        """Have a thread read what would have to be waited for."""
        cold: list[tuple[Log, int, int]] = []
        is_cold = self._broker.page_cache.is_cold
        for number, entry in enumerate(list(self._session.ready)):
            partition = self._find(entry)
            is_behind = partition is not None and entry.offset < partition.log.tail.start
            if partition is not None and is_behind and is_cold(partition.log, entry.offset):
                cold.append((partition.log, entry.offset, min(entry.max_bytes, self._max_bytes)))
            if not number % STEP and turn.is_over():
                await turn.rest()
        if cold:
            await self._warm(cold)

    async def _warm(self, cold: list[tuple[Log, int, int]]) -> None:
        warmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._broker.page_cache.warm(cold, lambda: None if warmed.done() else warmed.set_result(None))
        await warmed

    async def _keep_in_turns(self, found: Sequence[Found], turn: RequestTurn) -> None:
        """Nothing is answered yet: what is news stays ready, and more may come."""
        for number, (entry, partition, data) in enumerate(found):
            if partition is not None and entry not in self._held_back and is_news(entry, data):
                self._session.ready[entry] = None
                entry.watch(partition)
            if not number % STEP and turn.is_over():
                await turn.rest()

    async def _answer_in_turns(self, found: Sequence[Found], turn: RequestTurn) -> FetchResponse:
        session = self._session
        topics: dict[str | Uuid, FetchableTopicResponse] = {}
        with_data = []
        for number, (entry, partition, data) in enumerate(found):
            _count(partition, data)
            if session.full or is_news(entry, data):
                _topic_of(topics, entry).partitions.append(data)
            entry.sent_high_watermark = data.high_watermark
            entry.sent_log_start = data.log_start_offset
            if data.records:
                with_data.append(entry)
            if not number % STEP and turn.is_over():
                await turn.rest()
        if session.id != NO_SESSION:
            session.rotate(with_data)
        self._end()
        return FetchResponse(session_id=session.id, responses=list(topics.values()))


def _count(partition: Partition | None, data: PartitionData) -> None:
    if partition is not None:
        partition.counters.fetches.value += 1
        if data.error_code:
            partition.counters.failed_fetches.value += 1


def _topic_of(topics: dict[str | Uuid, FetchableTopicResponse], entry: FetchEntry) -> FetchableTopicResponse:
    key = key_of(entry)
    topic = topics.get(key)
    if topic is None:
        topic = topics[key] = FetchableTopicResponse(
            topic=entry.topic, topic_id=entry.topic_id, partitions=[]
        )
    return topic
