"""Requests between coordinators, and from coordinators to partition leaders.

A `CoordinatorRequest` knows its target broker, the local call, and the request to a remote broker. The
channel
looks up the target for every attempt, because leaders move, and retries as `Retry` says while the error is
retriable. Kafka has one channel per purpose: PersisterStateManager, TransactionMarkerChannelManager,
AddPartitionsToTxnManager.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Generic, NamedTuple, TypeVar

from barnabas.cluster import Peers
from barnabas.common.clock import Clock, Timers
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.retry import UNLIMITED, delay_after
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.coordination.shard import Done
from barnabas.coordination.tasks import Tasks, answer_of
from barnabas.protocol.schema import Message

logger = rate_limited_logger(__name__)

A = TypeVar("A")

NO_LEADER = -1

RETRIABLE_ERRORS = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
"""Transient errors: the coordinator moves, loads, or cannot be reached."""


class Retry(NamedTuple):
    """Retry policy: at most `attempts` attempts, within `seconds`."""

    first_pause: float = 0.0
    growth: float = 1.0
    """Factor between two consecutive pauses."""
    longest_pause: float = UNLIMITED
    attempts: float = UNLIMITED
    seconds: float = UNLIMITED

    def pause_after(self, attempt: int) -> float:
        """Seconds between an attempt, counted from 1, and the next."""
        return delay_after(attempt - 1, self.first_pause, self.longest_pause, self.growth)


ONCE = Retry(attempts=1)


class CoordinatorRequest(ABC, Generic[A]):
    """A request to the broker that leads a partition or coordinates a key."""

    version: int | None = None
    """API version of the request; None for the newest that both brokers support."""

    @abstractmethod
    def leader(self) -> int:
        """Return the target broker, or NO_LEADER; raise KafkaError if it cannot be determined."""

    @abstractmethod
    def handle_locally(self, done: Done[A]) -> None:
        """Handle the request on this broker."""

    @abstractmethod
    def request(self) -> Message:
        """Build the request for a remote broker."""

    @abstractmethod
    def read(self, response: Any) -> A:
        """Extract the result from a response; may raise KafkaError."""

    def missing(self) -> Callable[[], Awaitable[None]] | None:
        """Return a coroutine that creates a missing precondition, for example the internal topic;

        None if there is none.
        """
        return None

    def is_retriable(self, outcome: A | KafkaError) -> bool:
        """True if a retry may have another outcome."""
        return isinstance(outcome, KafkaError) and outcome.code in RETRIABLE_ERRORS

    def is_cancelled(self) -> bool:
        """True if the result is no longer needed; stops retrying."""
        return False


class Channel:
    def __init__(self, node_id: int, peers: Peers, clock: Clock, timers: Timers) -> None:
        self._node_id = node_id
        self._peers = peers
        self._clock = clock
        self._timers = timers
        self._tasks = Tasks()

    def stop(self) -> None:
        """Cancel the requests in flight; their callbacks are not called."""
        self._tasks.stop()

    def ask(self, question: CoordinatorRequest[A], done: Done[A], retry: Retry = ONCE) -> None:
        """Send with retries; `done` gets the result, or the KafkaError of the last attempt."""
        until = self._clock.monotonic() + retry.seconds if retry.seconds < UNLIMITED else UNLIMITED
        self._attempt(question, done, retry, until, 1)

    async def answer(self, question: CoordinatorRequest[A], retry: Retry = ONCE) -> A:
        """Like `ask`, for coroutines; raises KafkaError."""

        def ask(done: Done[A]) -> None:
            self.ask(question, done, retry)

        return await answer_of(ask)

    def _attempt(
        self, question: CoordinatorRequest[A], done: Done[A], retry: Retry, until: float, attempt: int
    ) -> None:
        def answered(outcome: A | KafkaError) -> None:
            is_last = attempt >= retry.attempts or self._clock.monotonic() >= until
            if is_last or not question.is_retriable(outcome) or question.is_cancelled():
                done(outcome)
            else:
                self._timers.call_later(retry.pause_after(attempt), again)

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
        if leader == self._node_id:
            question.handle_locally(answered)
        elif leader == NO_LEADER:
            answered(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "no leader at the moment"))
        else:
            self._tasks.start(self._ask_peer(leader, question, answered))

    async def _ask_peer(self, leader: int, question: CoordinatorRequest[A], answered: Done[A]) -> None:
        outcome: A | KafkaError
        try:
            outcome = question.read(await self._peers.send(leader, question.request(), question.version))
        except KafkaError as error:
            outcome = error
        except Exception:
            logger.exception("request to broker %d failed", leader)
            outcome = KafkaError(ErrorCode.NETWORK_EXCEPTION, f"request to broker {leader} failed")
        answered(outcome)

    async def _create(self, create: Callable[[], Awaitable[None]], answered: Done[A]) -> None:
        try:
            await create()
        except KafkaError as error:
            answered(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message))
        else:
            answered(
                KafkaError(
                    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the internal topic was just created; retry"
                )
            )
