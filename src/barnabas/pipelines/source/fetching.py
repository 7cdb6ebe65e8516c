"""What a task does: fetch its ranges, whole batches at a time, with the next request under way while it decodes.

One request asks a leader for all of a task's partitions that it leads. Positions move when the headers of an answer
have been walked, which takes microseconds; the next request leaves then, and the records are decoded after that.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from barnabas.client.backoff import Backoff, Deadline
from barnabas.client.errors import RETRIABLE, ClientError
from barnabas.client.fetching import FetchedPartition, FetchSettings, fetch
from barnabas.client.offsets import EARLIEST, list_offsets
from barnabas.errors import ErrorCode, KafkaError
from barnabas.pipelines.broker_link import BrokerLink, may_pass
from barnabas.pipelines.source.errors import DataLossError, SourceError
from barnabas.pipelines.source.ranges import OffsetRange
from barnabas.records.columnar.plan import Planned, plan_batches
from barnabas.types import TopicPartition

log = logging.getLogger(__name__)

UNKNOWN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
UNKNOWN_PATIENCE = 10.0  # a topic that was just created is unknown to some brokers for a moment

FetchTask = asyncio.Task[list[FetchedPartition]]


class Fetched(NamedTuple):
    """Batches of a partition whose records from `first` on are wanted."""

    place: TopicPartition
    first: int
    until: int
    planned: Planned


class FetchingSettings(NamedTuple):
    fetch: FetchSettings
    poll_timeout: float
    fail_on_data_loss: bool


class RangeFetcher:
    """Reads ranges of different partitions to their ends."""

    def __init__(self, link: BrokerLink, ranges: list[OffsetRange], settings: FetchingSettings) -> None:
        self._link = link
        self._settings = settings
        self._fetch = settings.fetch
        self._positions = {found.place: found.first for found in ranges}
        self._ends = {found.place: found.until for found in ranges}
        self._under_way: dict[int, FetchTask] = {}
        self._backoff = Backoff()
        self._patience = Deadline(settings.poll_timeout)
        self._unknown_since: Deadline | None = None

    def __iter__(self) -> Iterator[Fetched]:
        """Until every range has been read; DataLossError where records are gone and that matters."""
        try:
            while self._positions:
                answers = self._link.run(self._next_answers())
                found = [part for answer in answers if (part := self._take(answer)) is not None]
                if self._positions:
                    self._link.run(self._ask())
                yield from found
        finally:
            self._cancel()

    async def _next_answers(self) -> list[FetchedPartition]:
        """What the first leader that answers says."""
        await self._ask()
        if not self._under_way:
            return []
        done, _ = await asyncio.wait(self._under_way.values(), return_when=asyncio.FIRST_COMPLETED)
        answers: list[FetchedPartition] = []
        for leader in [leader for leader, task in self._under_way.items() if task in done]:
            try:
                answers += self._under_way.pop(leader).result()
            except (ClientError, KafkaError) as error:
                await self._wait_or_raise(error)
        for answer in answers:
            if answer.error:
                await self._recover(answer)
        return answers

    async def _ask(self) -> None:
        """Send a request to every leader that has none under way."""
        by_leader: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
        try:
            for place, position in self._positions.items():
                by_leader[await self._link.client.leader(place)][place] = position
        except (ClientError, KafkaError) as error:
            await self._wait_or_raise(error)
            return
        for leader, positions in by_leader.items():
            if leader not in self._under_way:
                work = fetch(self._link.client, leader, positions, self._fetch)
                self._under_way[leader] = asyncio.get_running_loop().create_task(work)
        await asyncio.sleep(0)  # lets the requests be written, before this side is busy

    def _take(self, answer: FetchedPartition) -> Fetched | None:
        place, first = answer.partition, answer.fetch_offset
        if answer.error or self._positions.get(place) != first:
            return None
        until = self._ends[place]
        planned = plan_batches(answer.records, first, until, answer.aborted)
        if planned.next_offset == first:
            self._nothing_new(answer)
            return None
        self._backoff.reset()
        self._patience = Deadline(self._settings.poll_timeout)
        self._unknown_since = None
        self._positions[place] = planned.next_offset
        if planned.next_offset >= until:
            del self._positions[place]
        return Fetched(place, first, until, planned) if planned.batches else None

    def _nothing_new(self, answer: FetchedPartition) -> None:
        if len(answer.records):
            # A batch larger than what was asked for, behind another partition's: only the first is sent whole.
            larger = min(2 * self._fetch.partition_bytes, self._fetch.max_bytes * 2)
            self._fetch = replace(
                self._fetch, partition_bytes=larger, max_bytes=max(larger, self._fetch.max_bytes)
            )
        elif self._patience.passed:
            place, position = answer.partition, answer.fetch_offset
            until = self._ends[place]
            if answer.high_watermark < until:
                self._lose(
                    place, f"{place} ends at {answer.high_watermark}, and {until} was its end before", None
                )
                return
            raise SourceError(
                f"{place} gave no records from offset {position} on for {self._settings.poll_timeout:g} s, and there "
                f"must be some up to {until}; see the option 'kafkaConsumer.pollTimeoutMs'"
            )

    async def _recover(self, answer: FetchedPartition) -> None:
        place, position = answer.partition, answer.fetch_offset
        if self._positions.get(place) != position:
            return
        if answer.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            earliest = (await list_offsets(self._link.client, {place: EARLIEST}))[place].offset
            what = f"offset {position} of {place} is not there any more: its first record is {earliest}"
            self._lose(place, what, earliest if earliest > position else None)
        elif answer.error in UNKNOWN and self._is_gone():
            self._lose(place, f"{place} is not there any more", None)
        else:
            await self._wait_or_raise(KafkaError(answer.error, f"cannot read {place}"))

    def _lose(self, place: TopicPartition, what: str, go_on_at: int | None) -> None:
        """Go on at an offset, or with none of this range."""
        if self._settings.fail_on_data_loss:
            raise DataLossError(what)
        log.warning("%s; going on without it (failOnDataLoss is false)", what)
        if go_on_at is not None and go_on_at < self._ends[place]:
            self._positions[place] = go_on_at
        else:
            del self._positions[place]

    def _is_gone(self) -> bool:
        if self._unknown_since is None:
            self._unknown_since = Deadline(min(UNKNOWN_PATIENCE, self._settings.poll_timeout))
        return self._unknown_since.passed

    async def _wait_or_raise(self, error: ClientError | KafkaError) -> None:
        known = may_pass(error) or (isinstance(error, KafkaError) and error.code in RETRIABLE)
        if self._patience.passed or not known:
            raise error
        await self._backoff.wait(self._patience)
        await self._link.client.refresh_quietly({place.topic for place in self._positions})

    def _cancel(self) -> None:
        """A task may end early: a query with a limit has enough."""
        tasks, self._under_way = list(self._under_way.values()), {}
        for task in tasks:
            task.cancel()
        if tasks:
            self._link.run(_gather(tasks))


async def _gather(tasks: list[FetchTask]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
