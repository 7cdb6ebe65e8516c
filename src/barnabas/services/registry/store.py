"""The state of the registry and its topic: followed by all, changed by the one that leads."""

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

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from barnabas.client.cluster import Client
from barnabas.client.errors import ClientError
from barnabas.client.producing.transactional import FENCED
from barnabas.client.security.settings import PLAINTEXT, Security
from barnabas.common.errors import KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.services.registry import errors
from barnabas.services.registry.leadership import GROUP, Identity, Leadership
from barnabas.services.registry.state import State
from barnabas.services.registry.subjects import Change
from barnabas.services.registry.topic import TOPIC, ensure_topic
from barnabas.services.registry.writing import SchemaWriter
from barnabas.common.types import TopicPartition


# -- Follows `_schemas`: every committed record is replayed, in order, for as long as the registry runs 

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



logger = safe_logger(__name__)

WRITE_TIMEOUT = 30.0  # seconds for a whole change; Confluent's is 500 ms for the write alone
CATCH_UP_TIMEOUT = 2.0
QUIET = 0.5  # seconds without a change, after which the end of the topic is marked
ELECTION_PATIENCE = 15.0  # longer than a session that has to end first

Decide = Callable[[State], Awaitable[Change]]


class NotLeadingError(Exception):
    """Another registry writes, or none is known (None)."""

    def __init__(self, leader: Identity | None) -> None:
        super().__init__(leader.url if leader else "no leader")
        self.leader = leader


@dataclass(frozen=True, slots=True)
class StoreSettings:
    bootstrap: str
    security: Security = PLAINTEXT
    topic: str = TOPIC
    group: str = GROUP


class SchemaStore:
    """Three clients: what waits on one connection holds up all that is behind it."""

    def __init__(self, settings: StoreSettings) -> None:
        self.settings = settings
        self.state = State()
        place = TopicPartition(settings.topic, 0)
        self._clients = [
            Client(settings.bootstrap, client_id=f"schema-registry-{role}", security=settings.security)
            for role in ("reader", "writer", "member")
        ]
        reading, writing, self._joining = self._clients
        self.reader = SchemaReader(reading, self.state, place)
        self._writer = SchemaWriter(writing, place)
        self._asking = writing
        self._lock = asyncio.Lock()
        self.leadership: Leadership | None = None
        self._marking: asyncio.Task[None] | None = None  # while the topic ends with a transaction of ours

    async def start(self) -> None:
        """Returns when what is in the topic can be looked up."""
        await ensure_topic(self._asking, self.settings.topic)
        await self.reader.start(self._asking)

    def join(self, identity: Identity) -> None:
        """Take part in the election under an address where others reach this one."""
        self.leadership = Leadership(self._joining, identity, self.settings.group)
        self.leadership.start()

    async def close(self) -> None:
        if self._marking is not None:
            self._marking.cancel()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CATCH_UP_TIMEOUT):
                    await self._mark_end(0.0)
        if self.leadership is not None:
            await self.leadership.close()
        await self.reader.close()
        for client in self._clients:
            await client.close()

    async def change(self, decide: Decide) -> Any:
        """Decide on the newest state, write, and answer when it is committed and replayed here.

        NotLeadingError when that is another registry's to do.
        """
        async with self._lock:
            try:
                async with asyncio.timeout(WRITE_TIMEOUT):
                    return await self._change_again_if_fenced(decide)
            except (ClientError, KafkaError) as error:
                self._writer.give_up()
                logger.warning("a change could not be written: %s", error)
                raise errors.store_error(str(error)) from error
            except TimeoutError:
                self._writer.give_up()
                raise errors.timed_out("the change may be written or not; ask again") from None

    async def catch_up(self) -> None:
        """After another registry has written for a client of ours, so that the client finds it here."""
        try:
            async with asyncio.timeout(CATCH_UP_TIMEOUT):
                await self.reader.catch_up(self._asking)
        except (ClientError, KafkaError, TimeoutError) as error:
            logger.info("not caught up yet: %s", error)

    async def _change_again_if_fenced(self, decide: Decide) -> Any:
        """It led before, and another one since: nothing was committed, so decide again on what that one wrote."""
        try:
            return await self._change(decide)
        except KafkaError as error:
            if error.code not in FENCED:
                raise
        self._writer.give_up()
        return await self._change(decide)

    async def _change(self, decide: Decide) -> Any:
        await self._be_leader()
        change = await decide(self.state)
        if change.entries:
            encoded = [(self.state.key_bytes(one.key), one.value) for one in change.entries]
            await self.reader.reached(await self._writer.write(encoded))
            self._mark_end_soon()
        return change.answer

    def _mark_end_soon(self) -> None:
        if self._marking is not None:
            self._marking.cancel()
        self._marking = asyncio.create_task(self._mark_end(QUIET))

    async def _mark_end(self, after: float) -> None:
        await asyncio.sleep(after)
        try:
            await self._writer.mark_end()
        except (ClientError, KafkaError) as error:
            logger.info("the end of the topic is not marked: %s", error)
        self._marking = None

    async def _be_leader(self) -> None:
        """A new leader takes the transactional id, which fences the old one, and reads to the end."""
        leadership = self.leadership
        leader = None if leadership is None else await leadership.known_leader(ELECTION_PATIENCE)
        if leadership is None or leader is None or not leadership.leads:
            self._writer.give_up()
            raise NotLeadingError(leader)
        if not self._writer.is_ready:
            await self._writer.begin()
            await self.reader.catch_up(self._asking)
