"""Reads ranges of offsets as whole batches, with the next request in flight while the caller decodes.

One request asks a leader for all partitions of the ranges that it leads. Positions move when the headers of an answer
have been walked, which takes microseconds; the next request leaves then, and the caller decodes the records after that.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple, Protocol

from barnabas.client.cluster import Client
from barnabas.client.errors import ClientError
from barnabas.client.fetching import FetchedPartition, FetchSettings, fetch
from barnabas.client.offsets import EARLIEST, OffsetRange, list_offsets
from barnabas.client.retry import RetryPolicy
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.retry import Deadline
from barnabas.common.types import TopicPartition
from barnabas.records.columnar.plan import DecodePlan, plan_batches

# -- Source of batches for tables and Spark, from brokers or the object store --------------------------


class FetchedRange(NamedTuple):
    """Batches of a partition that cover the offsets [first, until)."""

    tp: TopicPartition
    first: int
    until: int
    planned: DecodePlan


class BatchSource(Protocol):
    """Reads ranges of offsets to their ends, in offset order within each partition.

    while not source.is_done:
        for found in await source.next():
            for columns in decode(found.planned, wanted, found.first, found.until): ...
    """

    @property
    def is_done(self) -> bool:
        """Every range has been read to its end."""
        ...

    async def next(self) -> list[FetchedRange]:
        """The batches that arrive first, possibly none. The next requests are in flight when this returns."""
        ...

    async def close(self) -> None:
        """A caller may end early: a query with a limit has enough."""
        ...


UNKNOWN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
UNKNOWN_TIMEOUT = 10.0  # a topic that was just created is unknown to some brokers for a moment

FetchTask = asyncio.Task[list[FetchedPartition]]


class StalledError(ClientError):
    """A partition returned no records below its known end."""


class RangeFetcher:
    """A BatchSource: ranges of different partitions, from their leaders. `timeout`: seconds without any progress.

    `on_loss` is called when records of a range were deleted: it raises, or the fetcher continues with the rest.
    """

    def __init__(
        self,
        client: Client,
        ranges: Iterable[OffsetRange],
        settings: FetchSettings,
        timeout: float,
        on_loss: Callable[[str], None],
    ) -> None:
        self._client = client
        self._settings = settings
        self._timeout = timeout
        self._on_loss = on_loss
        self._positions: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        for tp, first, until in ranges:
            self._positions[tp], self._ends[tp] = first, until
        self._in_progress: dict[int, FetchTask] = {}
        self._retry_policy = RetryPolicy(timeout)
        self._unknown_since: Deadline | None = None

    @property
    def is_done(self) -> bool:
        """Every range has been read to its end."""
        return not self._positions

    async def next(self) -> list[FetchedRange]:
        """Batches of the first leader that responds, possibly none."""
        answers = await self._next_answers()
        found = [part for answer in answers if (part := self._take(answer)) is not None]
        if self._positions:
            await self._ask()
        return found

    async def close(self) -> None:
        """A caller may end early: a query with a limit has enough."""
        tasks, self._in_progress = list(self._in_progress.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _next_answers(self) -> list[FetchedPartition]:
        await self._ask()
        if not self._in_progress:
            return []
        done, _ = await asyncio.wait(self._in_progress.values(), return_when=asyncio.FIRST_COMPLETED)
        answers: list[FetchedPartition] = []
        for leader in [leader for leader, task in self._in_progress.items() if task in done]:
            try:
                answers += self._in_progress.pop(leader).result()
            except (ClientError, KafkaError) as error:
                await self._wait_or_raise(error)
        for answer in answers:
            if answer.error:
                await self._recover(answer)
        return answers

    async def _ask(self) -> None:
        """Send a request to every leader without one in flight."""
        by_leader: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
        try:
            for tp, position in self._positions.items():
                by_leader[await self._client.leader(tp)][tp] = position
        except (ClientError, KafkaError) as error:
            await self._wait_or_raise(error)
            return
        for leader, positions in by_leader.items():
            if leader not in self._in_progress:
                work = fetch(self._client, leader, positions, self._settings)
                self._in_progress[leader] = asyncio.get_running_loop().create_task(work)
        await asyncio.sleep(0)  # lets the requests be written before the caller is busy

    def _take(self, answer: FetchedPartition) -> FetchedRange | None:
        tp, first = answer.partition, answer.fetch_offset
        if answer.error or self._positions.get(tp) != first:
            return None
        until = self._ends[tp]
        planned = plan_batches(answer.records, first, until, answer.aborted)
        if planned.next_offset == first:
            self._nothing_new(answer)
            return None
        self._retry_policy.reset()
        self._unknown_since = None
        self._positions[tp] = planned.next_offset
        if planned.next_offset >= until:
            del self._positions[tp]
        return FetchedRange(tp, first, until, planned) if planned.batches else None

    def _nothing_new(self, answer: FetchedPartition) -> None:
        if len(answer.records):
            # A batch larger than what was asked for, behind another partition's: only the first is sent whole.
            settings = self._settings
            larger = min(2 * settings.partition_bytes, settings.max_bytes * 2)
            self._settings = replace(
                settings, partition_bytes=larger, max_bytes=max(larger, settings.max_bytes)
            )
        elif self._retry_policy.deadline.passed:
            self._stalled(answer)

    def _stalled(self, answer: FetchedPartition) -> None:
        tp, until = answer.partition, self._ends[answer.partition]
        if answer.high_watermark < until:
            self._lose(tp, f"{tp} ends at {answer.high_watermark}, below its former end {until}", None)
            return
        raise StalledError(
            f"{tp} returned no records from offset {answer.fetch_offset} on for {self._timeout:g} s, although it "
            f"ends at {until}"
        )

    async def _recover(self, answer: FetchedPartition) -> None:
        tp, position = answer.partition, answer.fetch_offset
        if self._positions.get(tp) != position:
            return
        if answer.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            earliest = (await list_offsets(self._client, {tp: EARLIEST}))[tp].offset
            what = f"offset {position} of {tp} was deleted: the log starts at {earliest}"
            self._lose(tp, what, earliest if earliest > position else None)
        elif answer.error in UNKNOWN and self._is_gone():
            self._lose(tp, f"{tp} no longer exists", None)
        else:
            await self._wait_or_raise(KafkaError(answer.error, f"cannot read {tp}"))

    def _lose(self, tp: TopicPartition, what: str, go_on_at: int | None) -> None:
        """Continue at an offset, or drop the range."""
        self._on_loss(what)
        if go_on_at is not None and go_on_at < self._ends[tp]:
            self._positions[tp] = go_on_at
        else:
            del self._positions[tp]

    def _is_gone(self) -> bool:
        if self._unknown_since is None:
            self._unknown_since = Deadline(min(UNKNOWN_TIMEOUT, self._timeout))
        return self._unknown_since.passed

    async def _wait_or_raise(self, error: Exception) -> None:
        await self._retry_policy.wait(error)
        await self._client.refresh_quietly({tp.topic for tp in self._positions})
