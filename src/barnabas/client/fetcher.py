"""Fetches from all leaders of assigned partitions concurrently, and prefetches while the caller processes records."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping

from barnabas.client.cluster import AsyncClosable, Client
from barnabas.client.errors import STALE_METADATA, ClientError
from barnabas.client.fetching import FetchedPartition, FetchSettings, fetch
from barnabas.client.offsets import EARLIEST, LATEST, list_offsets
from barnabas.client.retry import RetryPolicy
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.retry import Deadline
from barnabas.common.types import TopicPartition
from barnabas.records.batch import iterate_headers

REFRESH_SECONDS = 1.0

FetchTask = asyncio.Task[list[FetchedPartition]]


class Fetcher(AsyncClosable):
    """Returns fetched batches without decoding their records. Positions move past them at once.

    `out_of_range` says what to do when the log no longer holds a position: EARLIEST or LATEST to continue
    there, None to raise the error.
    """

    def __init__(
        self,
        client: Client,
        positions: Mapping[TopicPartition, int],
        settings: FetchSettings | None = None,
        *,
        out_of_range: int | None = None,
    ) -> None:
        assert out_of_range in (EARLIEST, LATEST, None)
        self.client = client
        self.settings = settings or FetchSettings()
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.last_stable_offsets: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self._positions = dict(positions)
        self._out_of_range = out_of_range
        self._fetches: dict[int, FetchTask] = {}
        self._asked: dict[TopicPartition, int] = {}  # partition -> broker of the fetch in flight
        self._next_refresh = Deadline(0)  # of metadata, while a partition has no leader
        self._retry_policy = RetryPolicy(client.total_timeout)

    async def close(self) -> None:
        tasks = list(self._fetches.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._fetches.clear()

    @property
    def partitions(self) -> set[TopicPartition]:
        return set(self._positions)

    def position(self, partition: TopicPartition) -> int:
        """Offset of the next record that will be fetched from this partition."""
        return self._positions[partition]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._positions[partition] = offset

    def remove(self, partition: TopicPartition) -> None:
        """Stop fetching this partition."""
        self._positions.pop(partition, None)

    async def fetch(self, timeout_seconds: float = 1.0) -> list[FetchedPartition]:
        """Batches from the first leaders that respond; empty on timeout."""
        deadline = Deadline(timeout_seconds)
        while self._positions:
            await self._ask_leaders()
            if not self._fetches:
                await asyncio.sleep(min(deadline.remaining, self.settings.max_wait))
                return []
            done, _ = await asyncio.wait(
                self._fetches.values(),
                timeout=deadline.remaining,
                return_when=asyncio.FIRST_COMPLETED,
            )
            fetched = await self._collect(done)
            if fetched or deadline.passed:
                return fetched
        return []

    async def _ask_leaders(self) -> None:
        """Start a fetch at every leader without one in flight."""
        by_leader, failure = await self._group_by_leader()
        for leader, positions in by_leader.items():
            if leader not in self._fetches:
                self._asked.update(dict.fromkeys(positions, leader))
                task = asyncio.create_task(fetch(self.client, leader, positions, self.settings))
                self._fetches[leader] = task
        if failure is not None and not self._fetches:
            await self._wait_or_raise(failure)

    async def _group_by_leader(self) -> tuple[dict[int, dict[TopicPartition, int]], Exception | None]:
        """Positions by leader, and the last error: partitions without a leader must not block the others."""
        by_leader: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
        failure: Exception | None = None
        for partition, offset in list(self._positions.items()):
            if partition in self._asked or partition in self.paused:
                continue
            try:
                by_leader[await self.client.leader(partition)][partition] = offset
            except (KafkaError, ClientError) as error:
                failure = error
        if failure is not None and self._next_refresh.passed:
            self._next_refresh = Deadline(REFRESH_SECONDS)
            await self.client.refresh_quietly({partition.topic for partition in self._positions})
        return by_leader, failure

    async def _collect(self, done: set[FetchTask]) -> list[FetchedPartition]:
        fetched: list[FetchedPartition] = []
        for leader in [leader for leader, task in self._fetches.items() if task in done]:
            task = self._fetches.pop(leader)
            self._asked = {
                partition: requested for partition, requested in self._asked.items() if requested != leader
            }
            try:
                answers = task.result()
            except (KafkaError, ClientError) as error:
                await self._wait_or_raise(error)
                continue
            fetched += [answer for answer in answers if await self._take(answer)]
        if fetched:
            # Prefetch while the caller processes these records.
            await self._ask_leaders()
        return fetched

    async def _take(self, answer: FetchedPartition) -> bool:
        """True if the answer has batches; moves the position past them."""
        partition = answer.partition
        if self._positions.get(partition) != answer.fetch_offset:
            return False  # position changed by a seek
        if answer.error:
            await self._recover(answer)
            return False
        self._retry_policy.reset()
        self.high_watermarks[partition] = answer.high_watermark
        self.last_stable_offsets[partition] = answer.last_stable_offset
        position = answer.fetch_offset
        for _, header in iterate_headers(answer.records):
            position = max(position, header.next_offset)
        self._positions[partition] = position
        return position > answer.fetch_offset

    async def _recover(self, answer: FetchedPartition) -> None:
        partition = answer.partition
        if answer.error == ErrorCode.OFFSET_OUT_OF_RANGE and self._out_of_range is not None:
            found = await list_offsets(self.client, {partition: self._out_of_range})
            self._positions[partition] = found[partition].offset
            return
        if answer.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            text = f"offset {answer.fetch_offset} is outside the log of {partition}"
        else:
            text = f"cannot read {partition}"
        await self._wait_or_raise(KafkaError(answer.error, text), partition.topic)

    async def _wait_or_raise(self, error: Exception, *topics: str) -> None:
        """Wait before the next attempt; refresh metadata if the leader may have changed."""
        await self._retry_policy.wait(error)
        if not isinstance(error, KafkaError) or error.code in STALE_METADATA:
            wanted = topics or {partition.topic for partition in self._positions}
            await self.client.refresh_quietly(wanted)
