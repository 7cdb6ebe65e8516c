"""Tails log topics and adds their lines to the store. One task on the loop; decoding runs in threads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import pyarrow as pa

from barnabas.client import Client, ClientError, FetchedRange, FetchSettings, RangeFetcher, TopicMetadata
from barnabas.client.offsets import READ_COMMITTED, OffsetRange, beginning_offsets, end_offsets, list_offsets
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import TopicPartition
from barnabas.records import InvalidRecords
from barnabas.records.columnar.decode import RecordColumns, decode
from barnabas.services.console.logs.lines import WANTED, rows_of
from barnabas.services.console.logs.service import LogTopics
from barnabas.services.console.logs.store import LogStore

IDLE_SECONDS = 1.0
TOPICS_SECONDS = 15.0
"""Interval of topic discovery."""
RETRY_SECONDS = 5.0
STALLED_SECONDS = 30.0
STEP_OFFSETS = 200_000
"""Per partition and round, so that partitions with a large backlog do not starve others."""
FETCH = FetchSettings(
    partition_bytes=1024 * 1024, max_bytes=8 * 1024 * 1024, max_wait=0.1, isolation=READ_COMMITTED
)

_logger = safe_logger(__name__)


class TailerStatus(msgspec.Struct):
    """Status of the tailer, for the page."""

    topics: list[str] = []
    behind: int = 0
    """Records in the topics that have not been read yet."""
    error: str = ""
    refused: list[str] = []
    """Topics that the console may not read."""
    lost: str = ""
    """Last records skipped: deleted by retention before they were read, or unreadable."""
    read: int = 0


class Tailer:
    def __init__(self, client: Client, store: LogStore, topics: LogTopics) -> None:
        self._client = client
        self._store = store
        self._choice = topics
        self._topics: dict[str, TopicMetadata] = {}
        self._looked = -TOPICS_SECONDS
        self.status = TailerStatus()

    async def run(self) -> None:
        """Run until cancelled. Retries while brokers are unreachable."""
        while True:
            try:
                busy = await self.step()
                self.status.error = ""
                if not busy:
                    await asyncio.sleep(IDLE_SECONDS)
            except (KafkaError, ClientError, TimeoutError) as error:
                self._looked = -TOPICS_SECONDS
                self.status.error = str(error) or "the broker did not answer in time"
                _logger.warning("log lines are not read now: %s", self.status.error)
                await asyncio.sleep(RETRY_SECONDS)

    async def step(self) -> bool:
        """Run one round over all partitions; False if there was nothing to read.

        A failed flush, as on a full disk, ends the round before anything is read, so that memory stays bounded.
        """
        await self._flush_if_due()
        await self._look_for_topics()
        ranges = await self._news()
        for topic in {each.tp.topic for each in ranges}:
            await self._read_topic(topic, [each for each in ranges if each.tp.topic == topic])
        await self._flush_if_due()
        return bool(ranges)

    async def _flush_if_due(self) -> None:
        if self._store.is_due:
            await asyncio.to_thread(self._store.flush)

    async def catch_up(self) -> None:
        """Read until there is nothing new."""
        while await self.step():
            pass

    async def _look_for_topics(self) -> None:
        if time.monotonic() - self._looked < TOPICS_SECONDS:
            return
        self._topics = await self._choice.find(self._client)
        self._looked = time.monotonic()
        self.status.topics = sorted(self._topics)
        self.status.refused = []
        self._store.expire()

    async def _news(self) -> list[OffsetRange]:
        partitions = [
            TopicPartition(name, index) for name, topic in self._topics.items() for index in topic.partitions
        ]
        if not partitions:
            self.status.behind = 0
            return []
        ends = await end_offsets(self._client, partitions, READ_COMMITTED)
        await self._begin(partitions, ends)
        ranges = [
            OffsetRange(tp, first, end) for tp, end in ends.items() if (first := self._position(tp)) < end
        ]
        self.status.behind = sum(each.size for each in ranges)
        return [each._replace(until=min(each.until, each.first + STEP_OFFSETS)) for each in ranges]

    def _position(self, tp: TopicPartition) -> int:
        return self._store.positions[tp.topic].next[tp.partition]

    async def _begin(self, partitions: Iterable[TopicPartition], ends: dict[TopicPartition, int]) -> None:
        """Set positions: of new partitions by the retention time, of truncated partitions to the log start offset."""
        new = [tp for tp in partitions if not self._is_known(tp)]
        if new:
            since = int((time.time() - self._store.settings.keep_seconds) * 1000)
            found = await list_offsets(self._client, dict.fromkeys(new, since))
            for tp in new:
                self._settle(tp, found[tp].offset if found[tp].offset >= 0 else ends[tp])
        cut = [tp for tp in partitions if self._position(tp) > ends[tp]]
        if cut:
            for tp, first in (await beginning_offsets(self._client, cut)).items():
                self._settle(tp, first)

    def _is_known(self, tp: TopicPartition) -> bool:
        known = self._store.positions.get(tp.topic)
        return known is not None and known.id == self._id(tp.topic) and tp.partition in known.next

    def _settle(self, tp: TopicPartition, offset: int) -> None:
        self._store.begin(tp.topic, self._id(tp.topic), tp.partition, offset)

    def _id(self, topic: str) -> str:
        return str(self._topics[topic].id)

    async def _read_topic(self, topic: str, ranges: Sequence[OffsetRange]) -> None:
        try:
            await self._read(ranges)
        except KafkaError as error:
            if error.code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise
            del self._topics[topic]  # until the next discovery
            self.status.refused.append(topic)

    async def _read(self, ranges: Sequence[OffsetRange]) -> None:
        fetcher = RangeFetcher(self._client, ranges, FETCH, STALLED_SECONDS, self._lose)
        try:
            while not fetcher.is_done:
                for found in await fetcher.next():
                    await self._take(found)
        finally:
            await fetcher.close()
        for tp, _, until in ranges:  # skip control records, aborted records and compaction gaps
            self._settle(tp, until)

    async def _take(self, found: FetchedRange) -> None:
        """Add records in pieces, to bound memory. Records that cannot be decoded are skipped."""
        tp = found.tp
        pieces = decode(found.planned, WANTED, found.first, found.until)
        try:
            while (rows := await asyncio.to_thread(_next_rows, tp, pieces)) is not None:
                self.status.read += rows.num_rows
                self._store.add(tp.topic, self._id(tp.topic), tp.partition, rows)
                await self._flush_if_due()
        except InvalidRecords as error:
            self._lose(f"{tp}: {error}")
        self._settle(tp, min(found.planned.next_offset, found.until))

    def _lose(self, what: str) -> None:
        self.status.lost = what
        _logger.warning("log lines were deleted before they were read: %s", what)


def _next_rows(tp: TopicPartition, pieces: Iterator[RecordColumns]) -> pa.RecordBatch | None:
    columns = next(pieces, None)
    return None if columns is None else rows_of(tp, columns)
