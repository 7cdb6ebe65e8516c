"""Follows `_schemas`: every committed record is replayed, in order, for as long as the registry runs."""

from __future__ import annotations

import asyncio
import contextlib

from barnabas.client.cluster import Client, raise_for
from barnabas.client.errors import ClientError
from barnabas.client.fetching import FetchedPartition, FetchSettings, fetch
from barnabas.client.offsets import READ_COMMITTED, beginning_offsets, end_offsets
from barnabas.client.opening import check_batch
from barnabas.client.retry import Backoff, Deadline
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.records.batch import iterate_headers
from barnabas.records.control import AbortedTransactions
from barnabas.records.record import iterate_records
from barnabas.services.registry.state import State
from barnabas.common.types import TopicPartition

logger = safe_logger(__name__)

SETTINGS = FetchSettings(isolation=READ_COMMITTED, partition_bytes=8 * 1024 * 1024)


class SchemaReader:
    """`client` is its own: a fetch that waits would hold up the answers to everything behind it."""

    def __init__(self, client: Client, state: State, place: TopicPartition) -> None:
        self.client = client
        self.state = state
        self.place = place
        self.position = 0  # of the next record; everything before it is in the state
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    async def start(self, asker: Client) -> None:
        """Returns when what was in the topic at the start is replayed."""
        self._task = asyncio.create_task(self._follow())
        await self.catch_up(asker)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def catch_up(self, asker: Client) -> None:
        """Until everything is replayed that is committed now; `asker` is a client on which nothing waits."""
        ends = await end_offsets(asker, [self.place], READ_COMMITTED)
        await self.reached(ends[self.place])

    async def reached(self, offset: int) -> None:
        """Until all records before this offset are replayed."""
        if self.position < offset:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((offset, future))
            await future

    async def _follow(self) -> None:
        backoff = Backoff()
        while True:
            try:
                await self._fetch()
                backoff.reset()
            except (ClientError, KafkaError) as error:
                logger.warning("%s cannot be read now: %s", self.place.topic, error)
                await backoff.wait(Deadline(5.0))
                await self.client.refresh_quietly([self.place.topic])

    async def _fetch(self) -> None:
        leader = await self.client.leader(self.place)
        (fetched,) = await fetch(self.client, leader, {self.place: self.position}, SETTINGS)
        if fetched.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.position = (await beginning_offsets(self.client, [self.place]))[self.place]
            return
        raise_for(fetched.error, str(self.place))
        self._replay(fetched)
        self._wake()

    def _replay(self, fetched: FetchedPartition) -> None:
        """Records of aborted transactions never were, but the ids in them are not given again."""
        aborted = AbortedTransactions(fetched.aborted)
        for start, header in iterate_headers(fetched.records):
            batch = fetched.records[start : start + header.size]
            check_batch(self.place, batch, header)
            hidden = aborted.hide(batch, header)
            apply = self.state.note_id if hidden else self.state.replay
            for record in () if header.is_control else iterate_records(batch, header):
                if record.offset >= self.position:
                    apply(record.key, record.value)
            self.position = max(self.position, header.next_offset)

    def _wake(self) -> None:
        still = []
        for offset, future in self._waiting:
            if offset > self.position:
                still.append((offset, future))
            elif not future.done():
                future.set_result(None)
        self._waiting = still
