"""Consumer of explicitly assigned partitions, without a group; the caller manages positions."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping

from barnabas.client.cluster import Client, Closing
from barnabas.client.errors import STALE_METADATA, ClientError
from barnabas.client.fetching import FetchedPartition, FetchSettings, fetch
from barnabas.client.offsets import EARLIEST, LATEST, READ_COMMITTED, list_offsets
from barnabas.client.opening import ConsumedRecord, open_batches
from barnabas.client.retry import RetryPolicy
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.retry import Deadline
from barnabas.common.types import TopicPartition

REFRESH_SECONDS = 1.0

FetchTask = asyncio.Task[list[FetchedPartition]]


class Consumer(Closing):
    """Fetches from all leaders concurrently and prefetches while the caller processes records.

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
        """Offset of the next record that `poll` returns for this partition."""
        return self._positions[partition]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._positions[partition] = offset

    def remove(self, partition: TopicPartition) -> None:
        """Stop fetching this partition."""
        self._positions.pop(partition, None)

    async def poll(self, timeout_seconds: float = 1.0) -> list[ConsumedRecord]:
        """Records of the first leaders that respond; empty on timeout."""
        deadline = Deadline(timeout_seconds)
        while self._positions:
            await self._ask_leaders()
            if not self._fetches:
                return []
            done, _ = await asyncio.wait(
                self._fetches.values(),
                timeout=deadline.remaining,
                return_when=asyncio.FIRST_COMPLETED,
            )
            records = await self._collect(done)
            if records or deadline.passed:
                return records
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
        for partition, offset in self._positions.items():
            if partition in self._asked:
                continue
            try:
                by_leader[await self.client.leader(partition)][partition] = offset
            except (KafkaError, ClientError) as error:
                failure = error
        if failure is not None and self._next_refresh.passed:
            self._next_refresh = Deadline(REFRESH_SECONDS)
            await self.client.refresh_quietly({partition.topic for partition in self._positions})
        return by_leader, failure

    async def _collect(self, done: set[FetchTask]) -> list[ConsumedRecord]:
        records: list[ConsumedRecord] = []
        for leader in [leader for leader, task in self._fetches.items() if task in done]:
            task = self._fetches.pop(leader)
            self._asked = {partition: asked for partition, asked in self._asked.items() if asked != leader}
            try:
                answers = task.result()
            except (KafkaError, ClientError) as error:
                await self._wait_or_raise(error)
                continue
            for answer in answers:
                records += await self._take(answer)
        if records:
            # Prefetch while the caller processes these records.
            await self._ask_leaders()
        return records

    async def _take(self, answer: FetchedPartition) -> list[ConsumedRecord]:
        partition = answer.partition
        if self._positions.get(partition) != answer.fetch_offset:
            return []  # position changed by a seek
        if answer.error:
            await self._recover(answer)
            return []
        self._retry_policy.reset()
        self.high_watermarks[partition] = answer.high_watermark
        opened = open_batches(answer, committed_only=self.settings.isolation == READ_COMMITTED)
        self._positions[partition] = opened.next_offset
        return opened.records

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
