"""One worker per leader of the source, which fetches from it and appends to the target concurrently.

The next fetch runs while the previous result is appended. At most two fetch results are in memory, and a slow target
throttles fetching.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from barnabas.client import Client, ClientError
from barnabas.client.mirrors.store import LinkStatus
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.retry import Backoff
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import TopicPartition
from barnabas.services.mirror.fetching import (
    FetchLimits,
    FetchRange,
    MirrorFetchSession,
    log_starts,
    with_bounds,
)
from barnabas.services.mirror.partition import FORBIDDEN, FetchResult, Payload, SourcePartition
from barnabas.services.mirror.plan import MirroredTopicIds, MirrorTarget

REST_SECONDS = 0.5
"""Backoff of a partition after a failed fetch or append."""
IDLE_SECONDS = 0.1

_logger = safe_logger(__name__)

RaiseEpochs = Callable[[Mapping[TopicPartition, int]], Awaitable[None]]


@dataclass(slots=True)
class LinkState:
    """Mirrored topics and partitions of one link, keyed by source name."""

    topics: dict[str, MirroredTopicIds] = field(default_factory=dict)
    partitions: dict[TopicPartition, SourcePartition] = field(default_factory=dict)
    suspects: set[str] = field(default_factory=set)
    """Topics reported as unknown by a leader of the source."""

    def of(self, state: LinkStatus) -> list[SourcePartition]:
        return [partition for partition in self.partitions.values() if partition.state is state]

    def lost(self) -> list[TopicPartition]:
        """Partitions whose position in the target is unknown."""
        return [
            tp
            for tp, each in self.partitions.items()
            if each.position < 0 and each.state in (LinkStatus.ACTIVE, LinkStatus.SOURCE_UNAVAILABLE)
        ]


class LeaderWorker:
    """Copies from one leader of the source to the target."""

    def __init__(
        self,
        source: Client,
        leader: int,
        book: LinkState,
        target: MirrorTarget,
        raise_epochs: RaiseEpochs,
        limits: FetchLimits,
    ) -> None:
        self._source = source
        self._leader = leader
        self._book = book
        self._target = target
        self._raise_epochs = raise_epochs
        self._session = MirrorFetchSession(source, leader, limits)
        self._resting: dict[TopicPartition, float] = {}
        self._pending: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Run until cancelled; the last fetch result is appended before it ends."""
        backoff = Backoff()
        try:
            while True:
                partitions = self._wanted()
                if not partitions:
                    await asyncio.sleep(IDLE_SECONDS)
                    continue
                try:
                    answers = await self._session.fetch(partitions)
                except (ClientError, KafkaError) as error:
                    self._unavailable(partitions, str(error))
                    await asyncio.sleep(backoff.next_delay())
                    await self._source.refresh_quietly({tp.topic for tp in partitions})
                    continue
                backoff.reset()
                payloads = await self._take(answers)
                await self._finish_pending()
                if payloads:
                    self._pending = asyncio.create_task(self._append(payloads))
        finally:
            await self._finish_pending()

    async def _finish_pending(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            await asyncio.shield(pending)

    def _wanted(self) -> dict[TopicPartition, FetchRange]:
        now, found = time.monotonic(), dict[TopicPartition, FetchRange]()
        topics, metadata = self._book.topics, self._source.metadata.topics
        for tp, partition in self._book.partitions.items():
            if not partition.is_fetching or self._resting.get(tp, 0.0) > now:
                continue
            known = metadata.get(tp.topic)
            leader_partition = known.partitions.get(tp.partition) if known is not None else None
            if leader_partition is not None and leader_partition.leader == self._leader:
                source_id = topics[tp.topic].source_id
                found[tp] = FetchRange(
                    source_id, partition.position, partition.last_epoch, leader_partition.leader_epoch
                )
        return found

    async def _take(self, answers: Iterable[tuple[TopicPartition, FetchResult]]) -> list[Payload]:
        payloads, now = [], time.time()
        for tp, fetched in answers:
            partition = self._book.partitions.get(tp)
            if partition is None:
                continue
            if fetched.error == ErrorCode.OFFSET_OUT_OF_RANGE:
                fetched = await self._with_bounds(tp, fetched)
            damaged = partition.damaged
            payload = partition.take(fetched, now)
            if payload is not None:
                payloads.append(payload)
            elif fetched.error or partition.damaged > damaged:
                await self._pause(tp, fetched.error)
        return payloads

    async def _with_bounds(self, tp: TopicPartition, fetched: FetchResult) -> FetchResult:
        try:
            return await with_bounds(self._source, tp, fetched)
        except (ClientError, KafkaError):
            return fetched._replace(error=ErrorCode.OFFSET_NOT_AVAILABLE)

    async def _pause(self, tp: TopicPartition, error: ErrorCode) -> None:
        """Back off, and refresh the metadata or schedule a check of the topic."""
        self._resting[tp] = time.monotonic() + REST_SECONDS
        if error in (
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INCONSISTENT_TOPIC_ID,
        ):
            self._book.suspects.add(tp.topic)
        elif error:
            await self._source.refresh_quietly([tp.topic])

    async def _append(self, payloads: list[Payload]) -> None:
        try:
            positions = await self._target.append(payloads)
        except (ClientError, KafkaError) as error:
            _logger.warning("the target rejected batches; retrying: %s", error)
            positions = {}
        behind: dict[TopicPartition, int] = {}
        for payload in payloads:
            partition, position = self._book.partitions.get(payload.tp), positions.get(payload.tp)
            if partition is None:
                continue
            if position is None:
                partition.position = -1
                continue
            partition.settle(payload, position)
            if position.error == ErrorCode.NEW_LEADER_ELECTED:
                behind[payload.tp] = payload.last_epoch
            elif position.error:
                self._resting[payload.tp] = time.monotonic() + REST_SECONDS
        if behind:
            await self._raise_epochs(behind)

    def _unavailable(self, partitions: Iterable[TopicPartition], reason: str) -> None:
        for tp in partitions:
            if (partition := self._book.partitions.get(tp)) is not None:
                partition.unavailable(reason)


async def locate(source: Client, book: LinkState, target: MirrorTarget) -> None:
    """Look up unknown positions in the target."""
    lost = book.lost()
    if not lost:
        return
    positions = await target.target_positions(lost)
    empty = [tp for tp, position in positions.items() if position.is_empty and not position.error]
    starts = await log_starts(source, empty) if empty else {}
    now = time.time()
    for tp, position in positions.items():
        partition = book.partitions.get(tp)
        if partition is None:
            continue
        if position.error == ErrorCode.INCONSISTENT_TOPIC_ID:
            partition.fail(position.message or "the topic was deleted and recreated at the source")
        elif position.error in FORBIDDEN:
            partition.fail(f"the target denies it: {position.message or position.error.name}")
        elif not position.error and tp in starts:
            partition.begin(starts[tp], -1, now)
        elif not position.error:
            partition.begin(position.log_end, position.last_epoch, now)


class LeaderWorkers:
    """Runs one worker for each current leader of the source."""

    def __init__(self, make: Callable[[int], LeaderWorker]) -> None:
        self._make = make
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def follow(self, leaders: set[int]) -> None:
        """Start and stop workers to match the leaders. A stopped worker finishes its append; a crash is re-raised."""
        for leader, task in list(self._tasks.items()):
            if task.done() and not task.cancelled():
                task.result()
            if leader not in leaders:
                task.cancel()
                del self._tasks[leader]
        for leader in leaders - self._tasks.keys():
            self._tasks[leader] = asyncio.create_task(
                self._make(leader).run(), name=f"worker of broker {leader}"
            )

    async def stop(self) -> None:
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
