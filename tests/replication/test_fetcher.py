"""A follower that comes too early, or finds nobody, comes again soon; its backoff is for those who stay away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from barnabas.clock import SystemClock
from barnabas.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from barnabas.replication.fetcher import FetchSettings, Identity, LeaderFetcher
from barnabas.replication.partition import Partition
from barnabas.replication.throttle import Throttle
from tests.replication.conftest import state

LEADER = 2
FOR_EVER = 1000.0  # seconds of backoff: nobody waits that long here
DEADLINE = 30.0


class Leader:
    """Answers one fetch after the other as it is told to; the one after that waits until the test is over."""

    def __init__(self, *answers: Callable[[FetchRequest], FetchResponse]) -> None:
        self._answers = list(answers)
        self.asked: list[FetchRequest] = []
        self.is_through = asyncio.Event()

    async def send(self, broker_id: int, request: Any, version: int | None = None) -> FetchResponse:
        self.asked.append(request)
        if not self._answers:
            self.is_through.set()
            await asyncio.Event().wait()
        return self._answers.pop(0)(request)


def down(request: FetchRequest) -> FetchResponse:
    raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE)


def says(error: ErrorCode) -> Callable[[FetchRequest], FetchResponse]:
    def answer(request: FetchRequest) -> FetchResponse:
        topics = [
            FetchableTopicResponse(
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(partition_index=named.partition, error_code=error, records=b"")
                    for named in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return FetchResponse(session_id=1, responses=topics)

    return answer


def followed(partition: Partition, *answers: Callable[[FetchRequest], FetchResponse]) -> list[FetchRequest]:
    """What a follower asks until all these answers were given."""
    partition.apply(state(leader=LEADER, isr=(1, 2)))

    async def follow() -> list[FetchRequest]:
        leader = Leader(*answers)
        settings = FetchSettings(500, 1, 1 << 20, 1 << 20, FOR_EVER)
        clock = SystemClock()
        throttle = Throttle(clock.monotonic)
        fetcher = LeaderFetcher(LEADER, leader, lambda: Identity(1, 1), lambda: settings, clock, throttle)
        fetcher.add(partition)
        await asyncio.wait_for(leader.is_through.wait(), DEADLINE)
        fetcher.stop()
        return leader.asked

    return asyncio.run(follow())


def test_a_leader_that_does_not_know_yet_that_it_leads_is_asked_again_soon(partition: Partition) -> None:
    too_early = says(ErrorCode.UNKNOWN_LEADER_EPOCH)
    asked = followed(partition, too_early, too_early, too_early)
    assert [len(request.topics) for request in asked] == [1] * 4


def test_a_leader_that_cannot_be_reached_is_looked_for_again_soon(partition: Partition) -> None:
    asked = followed(partition, down, down, says(ErrorCode.NONE))
    assert [request.session_id for request in asked] == [0, 0, 0, 1]
