"""One attempt to complete a fetch: read available data and, if that is enough, build the response.

With very many ready partitions, an attempt is made in steps: the loop serves others in between, and a
partition may change between its read and the end of the attempt. So a partition without data is watched from
its read on, and becomes ready again when it changes.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator
from typing import Final, TypeVar

from barnabas.common.errors import NO_ERROR
from barnabas.common.files import EMPTY, FileSlice
from barnabas.common.types import Uuid
from barnabas.handlers.fetch.reader import PartitionReader
from barnabas.metrics import TopicCounters
from barnabas.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from barnabas.replication import (
    NO_EPOCH,
    NO_REPLICA,
    NO_SESSION,
    FetchEntry,
    FetchSession,
    Partition,
    Partitions,
)

READ_AT_ONCE: Final = 1_000
"""Partitions; takes some milliseconds."""

STEP: Final = 50
"""Partitions between two yields."""

T = TypeVar("T")
E = TypeVar("E", FetchEntry, FetchPartition)
_NONE: Final[Partitions] = {}
Found = tuple[E, Partition | None, PartitionData]

Steps = Generator[None, None, FetchResponse | None]


def attempt(reader: PartitionReader, final: bool) -> FetchResponse | None:
    """Return the response; or None when there is too little data and time is left, or some of it is not in memory
    (`reader.cold`).
    """
    made = Attempt(reader, final)
    made.read(to_read(reader.session))
    if not made.is_enough():
        made.keep(made.found)
        return None
    made.answer(made.found)
    return made.response()


def attempt_without_session(
    reader: PartitionReader, topic: FetchTopic
) -> FetchResponse | list[Found[FetchPartition]] | None:
    """The same for a fetch of one topic without a session, read from its request: the most common case.

    Return what was read if there is too little data and time is left. Return None, without side effects, if a partition
    is missing or named twice, or some data is not in memory.
    """
    partitions = reader.topics.get(topic.topic_id if reader.session.uses_topic_ids else topic.topic)
    requested = topic.partitions
    if not partitions or (
        len(requested) != 1
        and len({wanted.partition for wanted in requested} & partitions.keys()) < max(len(requested), 1)
    ):
        return None
    found: list[Found[FetchPartition]] = []
    total = read_all(reader, requested, partitions, found)
    if reader.notes is not None:
        if found[0][1] is None or not reader.may_answer(total, reader.wait_ms <= 0):
            return None
        reader.count()
    elif total < reader.min_bytes and reader.wait_ms > 0:
        return found
    return response_of(topic, found)


def read_changed(
    reader: PartitionReader, topic: FetchTopic, found: Iterable[Found[FetchPartition]]
) -> tuple[list[Found[FetchPartition]], int]:
    """Read the partitions again that have changed since; return all, and the number of bytes."""
    topic_key = topic.topic_id if reader.session.uses_topic_ids else topic.topic
    partitions = reader.topics.get(topic_key, _NONE)
    again: list[Found[FetchPartition]] = []
    total = 0
    for each in found:
        wanted, before, data = each
        partition = partitions.get(wanted.partition)
        if partition is None:
            reader.noted.must_answer = True
            missing = reader.missing(FetchEntry(topic, topic_key, wanted))
            again.append((wanted, None, missing))
        elif (
            partition is before
            and data.records is EMPTY
            and reader.is_caught_up(wanted, partition, data.high_watermark, data.log_start_offset)
        ):
            again.append(each)
        else:
            total = read_all(reader, (wanted,), partitions, again, total)
    return again, total


def response_of(topic: FetchTopic, found: Iterable[Found[FetchPartition]]) -> FetchResponse:
    """Return the response to a fetch of one topic without a session."""
    answers = []
    for _, partition, data in found:
        if partition is not None:
            counters = partition.counters
            records = data.records
            counters.fetches.value += 1
            if data.error_code:
                counters.failed_fetches.value += 1
            if type(records) is FileSlice:
                counters.bytes_out.value += records.length
        answers.append(data)
    return FetchResponse(
        0, NO_ERROR, NO_SESSION, [FetchableTopicResponse(topic.topic, topic.topic_id, answers)]
    )


def read_all(
    reader: PartitionReader,
    entries: Iterable[E],
    only: Partitions | None,
    found: list[Found[E]],
    total: int = 0,
) -> int:
    """Read partitions, of any topic or of `only` one, while there is room; a full response names all of them.

    `total` is the number of bytes that were read before; return it with those that are read now.
    """
    for entry in entries:
        left = reader.max_bytes - total
        if left <= 0 and not reader.session.full:
            break
        partitions = only or reader.topics.get(entry.topic_key, _NONE)  # type: ignore[attr-defined]
        partition = partitions.get(entry.partition)
        if partition is None:
            data = reader.missing(entry)
        else:
            data = reader.read(entry, partition, left, not total)
        records = data.records
        if type(records) is FileSlice:
            total += records.length
        elif total and reader.lacks_room(entry, partition, data):
            reader.hold_back(entry)
            reader.noted.must_answer = True
        if data.error_code or data.preferred_read_replica >= 0:
            reader.noted.must_answer = True
        found.append((entry, partition, data))
    return total


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

    __slots__ = ("_must_answer", "_reader", "_session", "_topics", "_total", "found")

    def __init__(self, reader: PartitionReader, final: bool) -> None:
        session = reader.session
        reader.notes = None
        self._reader = reader
        self._session = session
        self._must_answer = final or not session.entries
        self._total = 0
        self._topics: dict[str | Uuid, FetchableTopicResponse] = {}
        self.found: list[Found[FetchEntry]] = []

    def read(self, entries: Iterable[FetchEntry]) -> None:
        self._total = read_all(self._reader, entries, None, self.found, self._total)

    def is_enough(self) -> bool:
        return self._reader.may_answer(self._total, self._must_answer)

    def keep(self, found: Iterable[Found[FetchEntry]]) -> None:
        """Postpone the response: changed partitions stay ready, and more data may arrive."""
        session, reader = self._session, self._reader
        for entry, partition, data in found:
            if partition is not None and not reader.is_held_back(entry):
                if _is_news(entry, data):
                    session.keep_ready(entry, partition)
                else:
                    session.set_idle(entry, partition)

    def answer(self, found: Iterable[Found[FetchEntry]]) -> None:
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
            and not self._reader.is_held_back(entry)
        ):
            self._session.set_idle(entry, partition)

    def response(self) -> FetchResponse:
        session = self._session
        self._reader.count()
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

    def keep(self, found: Iterable[Found[FetchEntry]]) -> None:
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
