"""The channel between coordinators: routing and retries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from barnabas.cluster import Peers
from barnabas.common.clock import ManualClock
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.coordination.channel import NO_LEADER, Channel, CoordinatorRequest, Retry
from barnabas.coordination.shard import Done
from barnabas.protocol.messages.metadata import ApiVersionsRequest

HERE, ELSEWHERE = 1, 2
AWAY = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
REFUSED = KafkaError(ErrorCode.INVALID_REQUEST)


class AnsweringPeers:
    """A clock, and a peer that gives the same answer to every request."""

    def __init__(self, peers_answer: str | Exception = "from a peer") -> None:
        self.clock = ManualClock()
        self.asked: list[int] = []
        self._peers_answer = peers_answer

    async def send(self, broker_id: int, request: Any, version: int | None = None) -> Any:
        self.asked.append(broker_id)
        if isinstance(self._peers_answer, Exception):
            raise self._peers_answer
        return self._peers_answer


class Asked(CoordinatorRequest[str]):
    """Answered with one outcome after the other; `leaders` likewise."""

    def __init__(
        self, *outcomes: str | KafkaError, leader: int | KafkaError = HERE, wanted: bool = True
    ) -> None:
        self.outcomes = list(outcomes)
        self._leader = leader
        self._wanted = wanted
        self.attempts = 0
        self.create: Callable[[], Awaitable[None]] | None = None

    def missing(self) -> Callable[[], Awaitable[None]] | None:
        return self.create

    def leader(self) -> int:
        self.attempts += 1
        if isinstance(self._leader, KafkaError):
            raise self._leader
        return self._leader

    def handle_locally(self, done: Done[str]) -> None:
        done(self.outcomes.pop(0))

    def request(self) -> ApiVersionsRequest:
        return ApiVersionsRequest()

    def read(self, response: str) -> str:
        return response

    def is_cancelled(self) -> bool:
        return not self._wanted


def ask(
    host: AnsweringPeers, question: Asked, retry: Retry, *, advance_ms: int = 0
) -> list[str | KafkaError]:
    """Responses to the requester after this time."""
    received: list[str | KafkaError] = []

    async def run() -> None:
        Channel(HERE, cast(Peers, host), host.clock, host.clock).ask(question, received.append, retry)
        for _ in range(5):
            await asyncio.sleep(0)
        host.clock.advance(advance_ms)
        for _ in range(5):
            await asyncio.sleep(0)

    asyncio.run(run())
    return received


FIVE_TIMES = Retry(first_pause=0.1, growth=2.0, attempts=5)


def test_local_broker_is_called_directly_and_immediately() -> None:
    host = AnsweringPeers()
    assert ask(host, Asked("here"), FIVE_TIMES) == ["here"]
    assert host.asked == []


def test_another_broker_is_queried_through_peers() -> None:
    host = AnsweringPeers()
    assert ask(host, Asked(leader=ELSEWHERE), FIVE_TIMES) == ["from a peer"]
    assert host.asked == [ELSEWHERE]


def test_transient_error_is_retried_with_growing_backoff() -> None:
    question = Asked(AWAY, AWAY, AWAY, "at last")
    assert ask(AnsweringPeers(), question, FIVE_TIMES, advance_ms=699) == []
    assert question.attempts == 3
    question = Asked(AWAY, AWAY, AWAY, "at last")
    assert ask(AnsweringPeers(), question, FIVE_TIMES, advance_ms=700) == ["at last"]


def test_last_attempt_counts_regardless_of_its_outcome() -> None:
    question = Asked(*[AWAY] * 9)
    assert ask(AnsweringPeers(), question, FIVE_TIMES, advance_ms=60_000) == [AWAY]
    assert question.attempts == 5


def test_retries_end_at_the_timeout_of_the_client() -> None:
    question = Asked(*[AWAY] * 99)
    assert ask(AnsweringPeers(), question, Retry(first_pause=0.1, seconds=1.0), advance_ms=60_000) == [AWAY]
    assert question.attempts == 11


def test_rejection_is_not_retried() -> None:
    question = Asked(REFUSED)
    assert ask(AnsweringPeers(), question, FIVE_TIMES, advance_ms=60_000) == [REFUSED]
    assert question.attempts == 1


def test_cancelled_request_is_not_retried() -> None:
    question = Asked(AWAY, wanted=False)
    assert ask(AnsweringPeers(), question, FIVE_TIMES, advance_ms=60_000) == [AWAY]
    assert question.attempts == 1


def test_unknown_leader_is_looked_up_again() -> None:
    for leader in (NO_LEADER, AWAY):
        question = Asked(leader=leader)
        (received,) = ask(AnsweringPeers(), question, FIVE_TIMES, advance_ms=60_000)
        assert isinstance(received, KafkaError)
        assert question.attempts == 5


def test_a_peer_that_fails_in_any_way_is_an_answer() -> None:
    for failure, code in (
        (KafkaError(ErrorCode.INVALID_REQUEST), ErrorCode.INVALID_REQUEST),
        (ValueError("no such field"), ErrorCode.NETWORK_EXCEPTION),
    ):
        (received,) = ask(AnsweringPeers(failure), Asked(leader=ELSEWHERE), Retry(attempts=1))
        assert isinstance(received, KafkaError)
        assert received.code is code


def test_missing_topics_are_created_before_clients_are_asked() -> None:
    question = Asked("here")

    async def create() -> None:
        question.create = None

    question.create = create
    assert ask(AnsweringPeers(), question, FIVE_TIMES, advance_ms=100) == ["here"]
