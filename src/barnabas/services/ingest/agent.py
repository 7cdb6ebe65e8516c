"""An agent: its sources, and one transaction after the other with what they have.

While a transaction is on its way to the broker, the next is collected: at most two of them are in memory, and a broker
that is slow or away stops the reading. After a failure the agent begins again, from the positions that the broker has.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

from barnabas.client import Client
from barnabas.client.errors import ClientError, is_retriable
from barnabas.client.producing import FENCED
from barnabas.client.status import State
from barnabas.common.errors import KafkaError
from barnabas.common.retry import Backoff
from barnabas.common.safe_logging import safe_logger
from barnabas.services.ingest.batches import BatchTopics, find_topics
from barnabas.services.ingest.delivery import Collected, Delivery

# -- What an agent cannot mend by itself ---------------------------------------------------------------


class IngestError(Exception):
    """Its text says what to do."""


class DuplicateAgentError(IngestError):
    """Two agents of one name take the transactional id from each other."""

    def __init__(self, agent: str) -> None:
        super().__init__(
            f"another agent named {agent} is running: stop it, or give this one another name (--agent)"
        )


class NoProcError(IngestError):
    """This is no Linux."""

    def __init__(self, folder: str) -> None:
        super().__init__(f"there is no {folder}/stat: `ingest host` reads what Linux counts; run it on Linux")


TRANSACTION_BYTES = 4 * 1024 * 1024
PIECE_BYTES = 1024 * 1024
"""What a source collects at a time: meanwhile the transaction before stands still."""
YIELD_SECONDS = 0.002
"""Between two pieces, for a transaction that is on its way: a request to a broker near by and its answer."""
IDLE_SECONDS = 0.25
"""Between two looks at sources that have nothing."""
MAX_FENCINGS, FENCINGS_WITHIN = 3, 60.0
"""An agent whose transaction ran into its timeout is fenced once; one that has a twin, again and again."""

_logger = safe_logger(__name__)


class Observed(NamedTuple):
    """How a source stands, for people: nothing of the agent depends on it."""

    lag: int | None = None
    """Bytes that are there and were not read; None: not known."""
    counts: Mapping[str, int] = {}
    """By `dead_letters`, `files`, `dropped`, `errors`, and whatever else is worth telling."""


class IngestSource(Protocol):
    """Where records come from."""

    kind: ClassVar[str]

    @property
    def name(self) -> str: ...

    @property
    def topics(self) -> Sequence[str]: ...

    def begin(self, positions: Mapping[str, bytes], topics: BatchTopics) -> None:
        """Go on from these positions; whatever was collected and not committed is collected again."""
        ...

    def collect(self, room: int) -> Collected: ...

    def observe(self) -> Observed: ...

    def close(self) -> None: ...


@runtime_checkable
class Listening(Protocol):
    """A source that others send to: it is opened once, and emptied before the agent ends."""

    async def open(self, arrived: Callable[[], None]) -> None:
        """Begin to listen. `arrived` wakes an agent that rests."""
        ...

    def interrupted(self, error: Exception) -> None:
        """The broker is away; `begin` tells when it is back."""
        ...

    def stop_taking(self) -> None:
        """Nothing new is taken; what was taken can still be collected."""
        ...

    async def shut(self) -> None:
        """Answer who still waits, and close what is open."""
        ...


@dataclass(slots=True)
class SourceCounts:
    """What is in the topics."""

    records: int = 0
    bytes: int = 0
    last_commit: float = 0.0
    """Seconds since 1970; 0: not yet."""


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
        """Until `stop` is set, or with `exit_at_end` until there is nothing more to read."""
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
        """Raises what another attempt would not mend."""
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
        _logger.warning("%s begins again from the stored positions: %s", self.name, error)

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
        """As much as a transaction takes, in pieces, a piece of each source in turn."""
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
        """What others have sent is committed before the agent ends: they may not send it again."""
        for listening in self._listening:
            listening.stop_taking()
        sources = [source for source in self.sources if isinstance(source, Listening)]
        while True:
            collected = {source.name: source.collect(TRANSACTION_BYTES) for source in sources}
            if all(each.is_empty for each in collected.values()):
                return
            await self._commit(delivery, collected)

    async def _idle(self, stop: asyncio.Event) -> None:
        """Until something arrives, until the agent is stopped, or until it is time to look again."""
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
