"""Requests between coordinators, and from coordinators to the leaders of partitions.

A `CoordinatorRequest` knows which broker answers it, how this broker answers it by a call, and which request asks another broker.
The channel looks up the broker for every attempt, because leaders move, and asks again as `Retry` says while the error
is one that passes by itself. In Kafka each of these has a channel of its own: PersisterStateManager,
TransactionMarkerChannelManager, AddPartitionsToTxnManager.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from barnabas.common.clock import Clock, Timers
from barnabas.cluster.peers import Peers
from barnabas.coordination.tasks import Tasks, answer_of
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.protocol.schema import Message

logger = rate_limited_logger(__name__)

A = TypeVar("A")
Done = Callable[[A | KafkaError], None]

NO_LEADER = -1
FOREVER = float("inf")

PASSING = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
"""The coordinator moves, loads, or cannot be reached: all of that passes by itself."""


class Retry(NamedTuple):
    """How often and how long a question is asked again: up to `attempts` in all, within `seconds`."""

    first_pause: float = 0.0
    growth: float = 1.0
    """Each pause is so many times as long as the one before."""
    longest_pause: float = FOREVER
    attempts: float = FOREVER
    seconds: float = FOREVER

    def pause_after(self, attempt: int) -> float:
        """Seconds between an attempt, counted from 1, and the next."""
        exponent = min(attempt - 1, 64)  # a float has an end
        return min(self.first_pause * self.growth**exponent, self.longest_pause)


ONCE = Retry(attempts=1)


class CoordinatorRequest(ABC, Generic[A]):
    """What is asked of the broker that leads a partition or coordinates a key."""

    version: int | None = None
    """Of the request; None for the newest that both brokers have."""

    @abstractmethod
    def leader(self) -> int:
        """The broker that answers, NO_LEADER if there is none at the moment; KafkaError if that cannot be known."""

    @abstractmethod
    def answer_here(self, done: Done[A]) -> None:
        """Answer on this broker."""

    @abstractmethod
    def request(self) -> Message:
        """The same for another broker."""

    @abstractmethod
    def read(self, response: Any) -> A:
        """The answer in its response; a KafkaError may be raised."""

    def missing(self) -> Callable[[], Awaitable[None]] | None:
        """Creates what must be there before the question can be asked; None if nothing is missing."""
        return None

    def passes(self, outcome: A | KafkaError) -> bool:
        """May the same question have another outcome a little later?"""
        return isinstance(outcome, KafkaError) and outcome.code in PASSING

    def is_wanted(self) -> bool:
        """Is the answer still of use? Else the question is not asked again."""
        return True


class Host(Protocol):
    """What the channel needs from the broker."""

    @property
    def node_id(self) -> int: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def timers(self) -> Timers: ...

    @property
    def peers(self) -> Peers: ...


class Channel:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._tasks = Tasks()

    def stop(self) -> None:
        """What is still unanswered stays so."""
        self._tasks.stop()

    def ask(self, question: CoordinatorRequest[A], done: Done[A], retry: Retry = ONCE) -> None:
        """`done` gets the answer, or the KafkaError that is left after the last attempt."""
        until = self._host.clock.monotonic() + retry.seconds if retry.seconds < FOREVER else FOREVER
        self._attempt(question, done, retry, until, 1)

    async def answer(self, question: CoordinatorRequest[A], retry: Retry = ONCE) -> A:
        """The same for coroutines; a KafkaError is raised."""

        def ask(done: Done[A]) -> None:
            self.ask(question, done, retry)

        return await answer_of(ask)

    def _attempt(
        self, question: CoordinatorRequest[A], done: Done[A], retry: Retry, until: float, attempt: int
    ) -> None:
        def answered(outcome: A | KafkaError) -> None:
            is_last = attempt >= retry.attempts or self._host.clock.monotonic() >= until
            if is_last or not question.passes(outcome) or not question.is_wanted():
                done(outcome)
            else:
                self._host.timers.call_later(retry.pause_after(attempt), again)

        def again() -> None:
            self._attempt(question, done, retry, until, attempt + 1)

        self._ask_once(question, answered)

    def _ask_once(self, question: CoordinatorRequest[A], answered: Done[A]) -> None:
        create = question.missing()
        if create is not None:
            self._tasks.start(self._create(create, answered))
            return
        try:
            leader = question.leader()
        except KafkaError as error:
            answered(error)
            return
        if leader == self._host.node_id:
            question.answer_here(answered)
        elif leader == NO_LEADER:
            answered(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "there is no leader at the moment"))
        else:
            self._tasks.start(self._ask_peer(leader, question, answered))

    async def _ask_peer(self, leader: int, question: CoordinatorRequest[A], answered: Done[A]) -> None:
        outcome: A | KafkaError
        try:
            outcome = question.read(await self._host.peers.send(leader, question.request(), question.version))
        except KafkaError as error:
            outcome = error
        except Exception:
            logger.exception("broker %d could not be asked", leader)
            outcome = KafkaError(ErrorCode.NETWORK_EXCEPTION, f"broker {leader} could not be asked")
        answered(outcome)

    async def _create(self, create: Callable[[], Awaitable[None]], answered: Done[A]) -> None:
        try:
            await create()
        except KafkaError as error:
            answered(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message))
        else:
            answered(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "what was missing has been created"))
