"""The state of the registry and its topic: followed by all, changed by the one that leads."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from barnabas.client import Client
from barnabas.client.errors import ClientError
from barnabas.client.producing import FENCED
from barnabas.client.security import PLAINTEXT, ClientSecurity
from barnabas.common.errors import KafkaError
from barnabas.common.retry import Backoff
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import TopicPartition
from barnabas.services.registry import errors
from barnabas.services.registry.leadership import GROUP, RegistryIdentity, RegistryLeadership
from barnabas.services.registry.peers import ANNOUNCEMENT_SECONDS, RegistryPeers, warn_of_others
from barnabas.services.registry.reader import SchemaReader
from barnabas.services.registry.records import LEADER_KEY, leader_value
from barnabas.services.registry.state import RegistryState
from barnabas.services.registry.subjects import SubjectChange
from barnabas.services.registry.topic import TOPIC, ensure_topic
from barnabas.services.registry.writer import SchemaWriter

logger = safe_logger(__name__)

WRITE_TIMEOUT = 30.0  # seconds for a whole change; Confluent's is 500 ms for the write alone
CATCH_UP_TIMEOUT = 2.0
QUIET = 0.5  # seconds without a change, after which the end of the topic is marked
ELECTION_PATIENCE = 15.0  # longer than a session that has to end first

Decide = Callable[[RegistryState], Awaitable[SubjectChange]]


class NotLeadingError(Exception):
    """Another registry writes, or none is known (None)."""

    def __init__(self, leader: RegistryIdentity | None) -> None:
        super().__init__(leader.url if leader else "no leader")
        self.leader = leader


@dataclass(frozen=True, slots=True)
class SchemaStoreSettings:
    bootstrap: str
    security: ClientSecurity = PLAINTEXT
    topic: str = TOPIC
    group: str = GROUP
    peers: frozenset[str] = frozenset()


def _nothing() -> None:
    """Where requests that need the task fail, and that is all."""


class SchemaStore:
    """Three clients: what waits on one connection holds up all that is behind it."""

    def __init__(self, settings: SchemaStoreSettings, died: Callable[[], None] = _nothing) -> None:
        """`died` is called when a task without which the registry does nothing has ended."""
        self.settings = settings
        self.state = RegistryState()
        tp = TopicPartition(settings.topic, 0)
        self._clients = [
            Client(settings.bootstrap, client_id=f"schema-registry-{role}", security=settings.security)
            for role in ("reader", "writer", "member")
        ]
        reading, writing, self._joining = self._clients
        self._died = died
        self.reader = SchemaReader(reading, self.state, tp, self._task_ended)
        self._writer = SchemaWriter(writing, tp)
        self._asking = writing
        self._peers = RegistryPeers(settings.peers, self.reader, writing)
        self._lock = asyncio.Lock()
        self.leadership: RegistryLeadership | None = None
        self._marking: asyncio.Task[None] | None = None  # while the topic ends with a transaction of ours
        self._announcing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when what is in the topic can be looked up."""
        await ensure_topic(self._asking, self.settings.topic)
        await self.reader.start(self._asking)
        if self.settings.security != PLAINTEXT:
            await warn_of_others(self._asking, self.settings.group, self.settings.security)

    def join(self, identity: RegistryIdentity) -> None:
        """Take part in the election under an address where others reach this one."""
        self.leadership = RegistryLeadership(
            self._joining, identity, self.settings.group, self._announce_soon
        )
        self.leadership.start(self._task_ended)

    async def close(self) -> None:
        if self._announcing is not None:
            self._announcing.cancel()
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

    @property
    def leads(self) -> bool:
        return self.leadership is not None and self.leadership.leads

    async def check_leader(self, leader: RegistryIdentity) -> None:
        """RegistryError 503 for a leader that must not receive the credentials of clients."""
        assert self.leadership is not None, "an election has named this leader"
        waited = time.monotonic() - self.leadership.leader_since
        await self._peers.check(leader, self.leadership.identity, max(0.0, ANNOUNCEMENT_SECONDS - waited))

    async def catch_up(self) -> None:
        """After another registry has written for a client of ours, so that the client finds it here."""
        try:
            async with asyncio.timeout(CATCH_UP_TIMEOUT):
                await self.reader.catch_up(self._asking)
        except (ClientError, KafkaError, TimeoutError) as error:
            logger.info("not caught up yet: %s", error)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        logger.critical("a task of the registry has died", exc_info=task.exception())
        self._died()

    async def _change_again_if_fenced(self, decide: Decide) -> Any:
        """It led before, and another one since: decide again on what that one wrote.

        Unless the change was committed and only the answer to that was lost: deleted again, it would not be found.
        """
        change: SubjectChange | None = None
        try:
            await self._be_leader()
            change = await decide(self.state)
            await self._write_change(change)
            return change.answer
        except KafkaError as error:
            if error.code not in FENCED:
                raise
        self._writer.give_up()
        await self._be_leader()
        if change is None or not self.reader.has_seen:
            change = await decide(self.state)
            await self._write_change(change)
        return change.answer

    async def _write_change(self, change: SubjectChange) -> None:
        if change.entries:
            encoded = [(self.state.key_bytes(one.key), one.value) for one in change.entries]
            self.reader.expect(encoded)
            await self._write(encoded)

    async def _write(self, encoded: Sequence[tuple[bytes, bytes | None]]) -> None:
        await self.reader.reached(await self._writer.write(encoded))
        self._mark_end_soon()

    def _announce_soon(self) -> None:
        """The others forward nothing to a leader that has not recorded its address."""
        if self._announcing is not None:
            self._announcing.cancel()
        self._announcing = asyncio.create_task(self._announce_until_done())

    async def _announce_until_done(self) -> None:
        backoff = Backoff()
        while self.leadership is not None and self.leadership.leads:
            try:
                await self.change(_no_change)
                return
            except (errors.RegistryApiError, NotLeadingError) as error:
                logger.info("the address of this registry is not recorded yet: %s", error)
                await asyncio.sleep(backoff.next_delay())

    async def _announce(self, url: str) -> None:
        """Again whenever the producer id has changed: others compare it with the one that the brokers name."""
        if self.state.announced.get(self._writer.producer_id) != url:
            await self._write([(LEADER_KEY, leader_value(url))])

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
        await self._announce(leadership.identity.url)


async def _no_change(state: RegistryState) -> SubjectChange:
    return SubjectChange([], None)
