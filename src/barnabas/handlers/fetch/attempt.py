"""One attempt to complete a fetch: read available data and, if that is enough, build the response.

With very many ready partitions, an attempt is made in steps: the loop serves others in between, and a
partition may change between its read and the end of the attempt. So a partition without data is watched from
its read on, and becomes ready again when it changes.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator
from typing import Final, TypeVar

from barnabas.common.errors import NO_ERROR
from barnabas.common.files import FileSlice
from barnabas.common.types import Uuid
from barnabas.handlers.fetch.reader import Cold, PartitionReader
from barnabas.metrics import TopicCounters
from barnabas.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from barnabas.replication import (
    NO_EPOCH,
    NO_REPLICA,
    NO_SESSION,
    ColdReads,
    FetchEntry,
    FetchSession,
    Partition,
)

READ_AT_ONCE: Final = 1_000
"""Partitions; takes some milliseconds."""

STEP: Final = 50
"""Partitions between two yields."""

T = TypeVar("T")

Found = tuple[FetchEntry, Partition | None, PartitionData]
Steps = Generator[None, None, FetchResponse | None]


def attempt(reader: PartitionReader, final: bool) -> FetchResponse | None:
    """Return the response, or None when there is too little data and time is left."""
    made = Attempt(reader, final)
    made.read(to_read(reader.session))
    if not made.is_enough():
        made.keep(made.found)
        return None
    made.answer(made.found)
    return made.response()


def attempt_without_session(
    reader: PartitionReader, topic: FetchTopic, page_cache: ColdReads
) -> FetchResponse | None:
    """The same for a fetch of one topic without a session, read from its request: the most common case.

    Also returns None, without side effects, if a partition is missing, not in memory or named twice.
    """
    partitions = reader.topics.get(topic.topic_id if reader.session.uses_topic_ids else topic.topic)
    asked = topic.partitions
    if partitions is None or not 0 < len(asked) <= READ_AT_ONCE:
        return None
    if len(asked) > 1 and len({wanted.partition for wanted in asked}) < len(asked):
        return None
    left, total, must_answer, found = reader.max_bytes, 0, reader.wait_ms <= 0, []
    for wanted in asked:
        partition = partitions.get(wanted.partition)
        if partition is None or (
            wanted.fetch_offset < partition.log.segments.tail.start
            and page_cache.is_cold(partition.log, wanted.fetch_offset)
        ):
            return None
        data = reader.read(wanted, partition, left, total == 0)
        records = data.records
        if type(records) is FileSlice:
            total += records.length
            left -= records.length
        elif total and reader.lacks_room(wanted, partition, data):
            must_answer = True
        if data.error_code or data.preferred_read_replica >= 0:
            must_answer = True
        found.append(data)
    if not must_answer and total < reader.min_bytes:
        return None
    for data in found:
        _count(partitions[data.partition_index].counters, data, True)
    return FetchResponse(
        0, NO_ERROR, NO_SESSION, [FetchableTopicResponse(topic.topic, topic.topic_id, found)]
    )


def attempt_in_steps(reader: PartitionReader, final: bool) -> Steps:
    """The same for many partitions."""
    made = AttemptInSteps(reader, final)
    for entries in _steps(list(to_read(reader.session))):
        made.read(entries)
        yield
    is_enough = made.is_enough()
    for found in _steps(made.found):
        if is_enough:
            made.answer(found)
        else:
            made.keep(found)
        yield
    return made.response() if is_enough else None


def to_read(session: FetchSession) -> Collection[FetchEntry]:
    return session.entries.values() if session.full else session.ready


def _steps(items: list[T]) -> Iterator[list[T]]:
    return (items[start : start + STEP] for start in range(0, len(items), STEP))


class Attempt:
    """Data read so far, in order; it is kept for later, or becomes the response."""

    __slots__ = ("_left", "_must_answer", "_reader", "_session", "_topics", "_total", "found")

    def __init__(self, reader: PartitionReader, final: bool) -> None:
        session = reader.session
        self._reader = reader
        self._session = session
        self._left = reader.max_bytes
        self._must_answer = final or not session.entries
        self._total = 0
        self._topics: dict[str | Uuid, FetchableTopicResponse] = {}
        self.found: list[Found] = []

    def read(self, entries: Iterable[FetchEntry]) -> None:
        """Read partitions while the size limit allows it."""
        reader, is_full, left, total = self._reader, self._session.full, self._left, self._total
        topics = reader.topics
        for entry in entries:
            if left <= 0 and not is_full:
                break
            partitions = topics.get(entry.topic_key)
            partition = partitions.get(entry.partition) if partitions is not None else None
            if partition is None:
                data = reader.missing(entry)
            else:
                data = reader.read(entry, partition, left, total == 0)
            records = data.records
            if type(records) is FileSlice:
                total += records.length
                left -= records.length
            elif total and reader.lacks_room(entry, partition, data):
                reader.held_back.add(entry)
                self._must_answer = True
            if data.error_code or data.preferred_read_replica >= 0:
                self._must_answer = True
            self.found.append((entry, partition, data))
        self._left, self._total = left, total

    def is_enough(self) -> bool:
        return self._must_answer or self._total >= self._reader.min_bytes

    def keep(self, found: Iterable[Found]) -> None:
        """Postpone the response: changed partitions stay ready, and more data may arrive."""
        session, held_back = self._session, self._reader.held_back
        for entry, partition, data in found:
            if partition is not None and entry not in held_back:
                if _is_news(entry, data):
                    session.keep_ready(entry, partition)
                else:
                    session.set_idle(entry, partition)

    def answer(self, found: Iterable[Found]) -> None:
        """Add data to the response, if it is news for the client."""
        session, topics = self._session, self._topics
        is_full, is_session = session.full, session.id != NO_SESSION
        is_consumer = session.replica == NO_REPLICA
        for entry, partition, data in found:
            if partition is not None:
                _count(partition.counters, data, is_consumer)
            if is_full or _is_news(entry, data):
                topic = topics.get(entry.topic_key)
                if topic is None:
                    topic = topics[entry.topic_key] = FetchableTopicResponse(entry.topic, entry.topic_id, [])
                topic.partitions.append(data)
            if is_session:
                entry.sent(data)
                self._set_idle(entry, partition, data)

    def _set_idle(self, entry: FetchEntry, partition: Partition | None, data: PartitionData) -> None:
        """Mark a partition without data as idle. Throttled ones stay ready although they are not in the
        response.
        """
        if (
            partition is not None
            and not data.error_code
            and type(data.records) is not FileSlice
            and entry not in self._reader.held_back
        ):
            self._session.set_idle(entry, partition)

    def response(self) -> FetchResponse:
        session = self._session
        if session.id != NO_SESSION:
            session.rotate([entry for entry, _, data in self.found if type(data.records) is FileSlice])
        return FetchResponse(0, NO_ERROR, session.id, [*self._topics.values()])


class AttemptInSteps(Attempt):
    """Watches a partition without data at once: it may change before the attempt ends."""

    __slots__ = ()

    def read(self, entries: Iterable[FetchEntry]) -> None:
        before = len(self.found)
        super().read(entries)
        for entry, partition, data in self.found[before:]:
            super()._set_idle(entry, partition, data)

    def keep(self, found: Iterable[Found]) -> None:
        super().keep([each for each in found if _is_news(each[0], each[2])])

    def _set_idle(self, entry: FetchEntry, partition: Partition | None, data: PartitionData) -> None:
        """Skip the partition: it is watched already, or to be read again."""


def _count(counters: TopicCounters, data: PartitionData, is_consumer: bool) -> None:
    counters.fetches.value += 1
    if data.error_code:
        counters.failed_fetches.value += 1
    records = data.records
    if is_consumer and type(records) is FileSlice:
        counters.bytes_out.value += records.length


def _is_news(entry: FetchEntry, data: PartitionData) -> bool:
    """Return whether this is news for the client."""
    return (
        type(data.records) is FileSlice
        or data.error_code != 0
        or data.high_watermark != entry.sent_high_watermark
        or data.log_start_offset != entry.sent_log_start
        or data.diverging_epoch.epoch != NO_EPOCH
        or data.preferred_read_replica != NO_REPLICA
    )


def cold_logs(reader: PartitionReader, entries: Iterable[FetchEntry], page_cache: ColdReads) -> list[Cold]:
    """Return the reads that would wait for the disk or the object store."""
    found = []
    for entry in entries:
        partitions = reader.topics.get(entry.topic_key)
        partition = partitions.get(entry.partition) if partitions is not None else None
        # Data written a moment ago is in memory.
        if partition is None or entry.fetch_offset >= partition.log.segments.tail.start:
            continue
        if page_cache.is_cold(partition.log, entry.fetch_offset):
            found.append(
                (partition.log, entry.fetch_offset, min(entry.partition_max_bytes, reader.max_bytes))
            )
    return found


def cold_logs_in_steps(reader: PartitionReader, page_cache: ColdReads) -> Generator[None, None, list[Cold]]:
    """The same for many partitions."""
    found: list[Cold] = []
    for entries in _steps(list(reader.session.ready)):
        found += cold_logs(reader, entries, page_cache)
        yield
    return found
