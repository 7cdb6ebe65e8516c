"""Ingest agent: collects records from its sources and commits them in consecutive transactions.

The agent collects the next transaction while the current one is being committed. At most two transactions are in
memory, so a slow or unreachable broker stops reading. After a failure the agent restarts from the committed positions.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

from barnabas.client import Client, ClientError, is_retriable
from barnabas.client.producing import FENCED
from barnabas.client.status import State
from barnabas.common.errors import KafkaError
from barnabas.common.retry import Backoff
from barnabas.common.safe_logging import safe_logger
from barnabas.services.ingest.batches import BatchTopics, find_topics
from barnabas.services.ingest.delivery import Collected, Delivery

# -- Errors that a retry does not fix -------------------------------------------------------------------


class IngestError(Exception):
    """Base class of fatal agent errors; the message includes the remedy."""


class DuplicateAgentError(IngestError):
    """Another agent with the same name keeps fencing this one's transactional id."""

    def __init__(self, agent: str) -> None:
        super().__init__(
            f"another agent named {agent} is running: stop it, or give this one another name (--agent)"
        )


class NoProcError(IngestError):
    """/proc is missing: not a Linux machine."""

    def __init__(self, folder: str) -> None:
        super().__init__(f"{folder}/stat does not exist: `ingest host` needs the counters of a Linux kernel")


TRANSACTION_BYTES = 4 * 1024 * 1024
PIECE_BYTES = 1024 * 1024
"""Maximum bytes per `collect` call; `collect` blocks the event loop and thus the pending transaction."""
YIELD_SECONDS = 0.002
"""Pause between two pieces while a transaction is pending: about one round trip to a nearby broker."""
IDLE_SECONDS = 0.25
"""Poll interval while no source has data."""
MAX_FENCINGS, FENCINGS_WITHIN = 3, 60.0
"""Limit on fencings per period: a transaction timeout fences an agent once, a duplicate agent repeatedly."""

_logger = safe_logger(__name__)


class SourceStatus(NamedTuple):
    """Status of a source, for display only."""

    lag: int | None = None
    """Unread bytes; None: unknown."""
    counts: Mapping[str, int] = {}
    """By name: `dead_letters`, `files`, `dropped`, `errors` and counters specific to the source."""


class IngestSource(Protocol):
    """Source of records."""

    kind: ClassVar[str]

    @property
    def name(self) -> str: ...

    @property
    def topics(self) -> Sequence[str]: ...

    def begin(self, positions: Mapping[str, bytes], topics: BatchTopics) -> None:
        """Resume from these positions; uncommitted data is collected again."""
        ...

    def collect(self, room: int) -> Collected: ...

    def observe(self) -> SourceStatus: ...

    def close(self) -> None: ...


@runtime_checkable
class Listening(Protocol):
    """Source that accepts data from clients: opened once, drained before the agent stops."""

    async def open(self, arrived: Callable[[], None]) -> None:
        """Start listening. `arrived` wakes an idle agent."""
        ...

    def interrupted(self, error: Exception) -> None:
        """Handle the loss of the broker; `begin` is called after it is back."""
        ...

    def stop_taking(self) -> None:
        """Stop accepting data; accepted data can still be collected."""
        ...

    async def shut(self) -> None:
        """Answer pending requests and close all sockets."""
        ...


@dataclass(slots=True)
class SourceCounts:
    """Committed records and bytes of one source."""

    records: int = 0
    bytes: int = 0
    last_commit: float = 0.0
    """Unix time in seconds; 0: never."""


@dataclass(slots=True)
class AgentCounts:
    records: int = 0
    bytes: int = 0
    transactions: int = 0
    restarts: int = 0
    last_error: str = ""
    last_commit: float = 0.0


class Agent:
    def __init__(self, client: Client, name: str, sources: Sequence[IngestSource]) -> None:
        self.name = name
        self.sources = sources
        self.counts = AgentCounts()
        self.by_source = {source.name: SourceCounts() for source in sources}
        self.state: State = "starting"
        self._client = client
        self._listening = [source for source in sources if isinstance(source, Listening)]
        self._arrived = asyncio.Event()
        self._fencings: deque[float] = deque(maxlen=MAX_FENCINGS)

    async def run(self, stop: asyncio.Event, *, exit_at_end: bool = False) -> None:
        """Run until `stop` is set or, with `exit_at_end`, until the sources have no more data."""
        backoff = Backoff()
        try:
            for listening in self._listening:
                await listening.open(self._arrived.set)
            while True:
                before = self.counts.transactions
                try:
                    await self._term(stop, exit_at_end=exit_at_end)
                    self.state = "stopped"
                    return
                except (KafkaError, ClientError, TimeoutError) as error:
                    self._on_failure(error)
                if self.counts.transactions > before:
                    backoff.reset()
                await asyncio.sleep(backoff.next_delay())
                if stop.is_set():
                    self.state = "stopped"
                    return
        finally:
            for listening in self._listening:
                await listening.shut()
            for source in self.sources:
                source.close()

    def _on_failure(self, error: Exception) -> None:
        """Prepare a restart; raise if the error is not retriable."""
        self.counts.restarts += 1
        self.counts.last_error = str(error)
        self.state = "failed"
        if isinstance(error, KafkaError) and error.code in FENCED:
            now = time.monotonic()
            self._fencings.append(now)
            if len(self._fencings) == MAX_FENCINGS and now - self._fencings[0] < FENCINGS_WITHIN:
                raise DuplicateAgentError(self.name) from error
        elif not is_retriable(error) and not isinstance(error, TimeoutError):
            raise error
        self.state = "retrying"
        for listening in self._listening:
            listening.interrupted(error)
        _logger.warning("%s restarts from the stored positions: %s", self.name, error)

    async def _term(self, stop: asyncio.Event, *, exit_at_end: bool) -> None:
        delivery = Delivery(self._client, self.name)
        positions = await delivery.begin()
        topics = await find_topics(self._client, [name for source in self.sources for name in source.topics])
        for source in self.sources:
            source.begin(positions.get(source.name, {}), topics)
        self.state = "running"
        pending: asyncio.Task[None] | None = None
        try:
            while not stop.is_set():
                collected = await self._collect(pending)
                if all(each.is_empty for each in collected.values()):
                    if pending is not None:
                        await pending
                    elif any(each.unfinished for each in collected.values()):
                        await asyncio.sleep(0)
                    elif exit_at_end:
                        return
                    else:
                        await self._idle(stop)
                    pending = None
                    continue
                if pending is not None:
                    await pending
                pending = asyncio.create_task(self._commit(delivery, collected))
            if pending is not None:
                await pending
                pending = None
            await self._empty(delivery)
        finally:
            if pending is not None and not pending.done():
                pending.cancel()
                await asyncio.gather(pending, return_exceptions=True)

    async def _collect(self, pending: asyncio.Task[None] | None) -> dict[str, Collected]:
        """Collect up to one transaction, a piece of each source in turn."""
        found = {source.name: Collected() for source in self.sources}
        while sum(each.size for each in found.values()) < TRANSACTION_BYTES:
            more = False
            for source in self.sources:
                piece = source.collect(PIECE_BYTES)
                found[source.name].add(piece)
                more |= bool(piece.batches)
            if not more:
                break
            if pending is not None and not pending.done():
                await asyncio.wait([pending], timeout=YIELD_SECONDS)
        return found

    async def _empty(self, delivery: Delivery) -> None:
        """Commit all data accepted from clients before the agent stops: clients may not resend it."""
        for listening in self._listening:
            listening.stop_taking()
        sources = [source for source in self.sources if isinstance(source, Listening)]
        while True:
            collected = {source.name: source.collect(TRANSACTION_BYTES) for source in sources}
            if all(each.is_empty for each in collected.values()):
                return
            await self._commit(delivery, collected)

    async def _idle(self, stop: asyncio.Event) -> None:
        """Wait for new data, for `stop` or for the next poll."""
        waiting = [asyncio.create_task(event.wait()) for event in (stop, self._arrived)]
        await asyncio.wait(waiting, timeout=IDLE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        self._arrived.clear()

    async def _commit(self, delivery: Delivery, collected: Mapping[str, Collected]) -> None:
        await delivery.commit(collected)
        now = time.time()
        self.counts.transactions += 1
        self.counts.last_commit = now
        for name, each in collected.items():
            if not each.is_empty:
                counts = self.by_source[name]
                counts.records += each.records
                counts.bytes += each.bytes
                counts.last_commit = now
                self.counts.records += each.records
                self.counts.bytes += each.bytes
            if each.committed is not None:
                each.committed()
