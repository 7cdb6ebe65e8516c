"""A follower that comes too early, or finds nobody, comes again soon; its backoff is for those who stay away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.clock import SystemClock
from barnabas.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from barnabas.replication import follower
from barnabas.replication.fetcher import FetchSettings, Identity, LeaderFetcher
from barnabas.replication.partition import Partition
from barnabas.replication.throttle import Throttle
from tests.replication.conftest import state

LEADER = 2
FOR_EVER = 1000.0  # seconds of backoff: nobody waits that long here
DEADLINE = 60.0


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


def sends(records: bytes) -> Callable[[FetchRequest], FetchResponse]:
    def answer(request: FetchRequest) -> FetchResponse:
        response = says(ErrorCode.NONE)(request)
        response.responses[0].partitions[0].records = records
        return response

    return answer


def followed(
    partition: Partition, *answers: Callable[[FetchRequest], FetchResponse], backoff: float = FOR_EVER
) -> list[FetchRequest]:
    """What a follower asks until all these answers were given."""
    partition.apply(state(leader=LEADER, isr=(1, 2)))

    async def follow() -> list[FetchRequest]:
        leader = Leader(*answers)
        settings = FetchSettings(500, 1, 1 << 20, 1 << 20, backoff)
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


def test_bytes_without_a_whole_batch_are_refused_and_asked_for_again_later(
    partition: Partition, batch: Callable[[], memoryview], caplog: pytest.LogCaptureFixture
) -> None:
    whole = bytes(batch())
    followed(partition, sends(whole[:-1]), sends(whole), backoff=0.01)
    assert "there is no whole batch" in caplog.text
    assert partition.log.log_end_offset > 0


def test_what_nobody_foresaw_puts_off_one_partition_and_the_session_goes_on(
    partition: Partition, batch: Callable[[], memoryview], monkeypatch: pytest.MonkeyPatch
) -> None:
    take, failures = follower.take, [RuntimeError("nobody foresaw this")]

    def fail_once(*args: Any) -> int:
        if failures:
            raise failures.pop()
        return take(*args)

    monkeypatch.setattr(follower, "take", fail_once)
    asked = followed(partition, sends(bytes(batch())), sends(bytes(batch())), backoff=0.01)
    assert [request.session_id for request in asked] == [0, 1, 1]
    assert partition.log.log_end_offset > 0
