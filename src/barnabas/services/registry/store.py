"""State of the registry and its topic: followed by all registries, changed by the leader."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from barnabas.client import Client, ClientError
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
from barnabas.services.registry.topic import TOPIC, SchemaWriter, ensure_topic

logger = safe_logger(__name__)

WRITE_TIMEOUT = 30.0  # seconds for a whole change; Confluent's is 500 ms for the write alone
CATCH_UP_TIMEOUT = 2.0
QUIET = 0.5  # seconds without a change until the end of the topic is marked
ELECTION_TIMEOUT = 15.0  # longer than the session timeout of a dead leader

Decide = Callable[[RegistryState], Awaitable[SubjectChange]]


class NotLeadingError(Exception):
    """Another registry is the leader; None if the leader is unknown."""

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
    """Default callback; requests that need the ended task fail."""


class SchemaStore:
    """Uses three clients, as a blocking request delays all later ones on its connection."""

    def __init__(self, settings: SchemaStoreSettings, died: Callable[[], None] = _nothing) -> None:
        """`died` is called when an essential task has ended."""
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
        self._marking: asyncio.Task[None] | None = None  # set while the topic ends with a transaction marker
        self._announcing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Return once the schemas in the topic can be looked up."""
        await ensure_topic(self._asking, self.settings.topic)
        await self.reader.start(self._asking)
        if self.settings.security != PLAINTEXT:
            await warn_of_others(self._asking, self.settings.group, self.settings.security)

    def join(self, identity: RegistryIdentity) -> None:
        """Take part in the election, advertising an address for other registries."""
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
        """Decide on the latest state, write, and return the answer once the change is committed and replayed here.

        NotLeadingError if another registry is the leader.
        """
        async with self._lock:
            try:
                async with asyncio.timeout(WRITE_TIMEOUT):
                    return await self._change_again_if_fenced(decide)
            except (ClientError, KafkaError) as error:
                self._writer.give_up()
                logger.warning("cannot write a change: %s", error)
                raise errors.store_error(str(error)) from error
            except TimeoutError:
                self._writer.give_up()
                raise errors.timed_out("the outcome of the change is unknown; read it again") from None

    @property
    def leads(self) -> bool:
        return self.leadership is not None and self.leadership.leads

    async def check_leader(self, leader: RegistryIdentity) -> None:
        """Raise error 503 if the leader must not receive client credentials."""
        assert self.leadership is not None, "elected by the group"
        waited = time.monotonic() - self.leadership.leader_since
        await self._peers.check(leader, self.leadership.identity, max(0.0, ANNOUNCEMENT_SECONDS - waited))

    async def catch_up(self) -> None:
        """Read changes that the leader wrote for a client of this registry, so that the client can read its write."""
        try:
            async with asyncio.timeout(CATCH_UP_TIMEOUT):
                await self.reader.catch_up(self._asking)
        except (ClientError, KafkaError, TimeoutError) as error:
            logger.info("not caught up yet: %s", error)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        logger.critical("a task of the registry failed", exc_info=task.exception())
        self._died()

    async def _change_again_if_fenced(self, decide: Decide) -> Any:
        """Make a change; if another leader fenced this one, decide again on its state.

        A change that was committed before the fencing is not repeated: a repeated delete would fail with "not found".
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
        """Announce in the background: other registries only forward to a leader that has recorded its address."""
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
                logger.info("cannot record the address of this registry yet: %s", error)
                await asyncio.sleep(backoff.next_delay())

    async def _announce(self, url: str) -> None:
        """Record the address, again after each change of the producer id, which others verify with the brokers."""
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
            logger.info("cannot write the end marker of the topic: %s", error)
        self._marking = None

    async def _be_leader(self) -> None:
        """Become the writer: take the transactional id, which fences the previous leader, and read to the end."""
        leadership = self.leadership
        leader = None if leadership is None else await leadership.known_leader(ELECTION_TIMEOUT)
        if leadership is None or leader is None or not leadership.leads:
            self._writer.give_up()
            raise NotLeadingError(leader)
        if not self._writer.is_ready:
            await self._writer.begin()
            await self.reader.catch_up(self._asking)
        await self._announce(leadership.identity.url)


async def _no_change(state: RegistryState) -> SubjectChange:
    return SubjectChange([], None)
