"""Followers of tiered logs fetch the tiered end from their leaders."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from barnabas.broker.tiering import followers
from barnabas.broker.tiering.followers import TieredFollowers
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.support.waiting import async_until

US, SLOW, GONE, LAST = 0, 1, 2, 40


class Leaders:
    """Leaders that report offset 100 + their id as tiered end; one is slow, one is down."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.may_answer = asyncio.Event()

    async def send(self, leader: int, request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await (self.may_answer.wait() if leader == SLOW else asyncio.sleep(0))
        finally:
            self.now -= 1
        if leader == GONE:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no answer")
        response = ListOffsetsPartitionResponse(partition_index=0, offset=99 + leader)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(f"topic-{leader}", [response])])


def follower(leader: int, noted: dict[int, int]) -> Any:
    config = SimpleNamespace(remote_storage_enable=True)
    log = SimpleNamespace(config=config, note_tiered=lambda end: noted.__setitem__(leader, end))
    return SimpleNamespace(
        topic=f"topic-{leader}",
        index=0,
        topic_partition=TopicPartition(f"topic-{leader}", 0),
        state=SimpleNamespace(leader=leader),
        leader_epoch=3,
        log=log,
        is_leader=False,
        is_retired=False,
    )


def test_slow_or_dead_leader_does_not_delay_requests_to_others() -> None:
    async def test() -> None:
        noted: dict[int, int] = {}
        leaders = Leaders()
        settings = {"remote.log.manager.task.interval.ms": 1}
        partitions = [follower(leader, noted) for leader in range(LAST + 1)]
        learning = asyncio.create_task(
            TieredFollowers(
                cast(Any, leaders), US, lambda: cast(Any, settings), cast(Any, None)
            ).fetch_tiered_ends(lambda: partitions)
        )
        first = set(range(US + 1, followers.LEADERS_AT_ONCE + 1)) - {SLOW, GONE}
        await async_until(lambda: set(noted) == first)
        leaders.may_answer.set()
        await async_until(lambda: set(noted) == set(range(LAST + 1)) - {US, GONE})
        learning.cancel()
        await asyncio.gather(learning, return_exceptions=True)
        assert noted[LAST] == 100 + LAST
        assert leaders.most == followers.LEADERS_AT_ONCE

    asyncio.run(test())
