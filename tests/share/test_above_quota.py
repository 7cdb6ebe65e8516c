"""A throttled share consumer gets an empty response, and acquires no records."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.network.requests.rules import OPEN, RequestSecurity
from barnabas.testing import EmbeddedBroker
from tests.network.requests.test_quota_stage import WAIT_MS, Counting
from tests.share.talks import ShareTalk
from tests.support.server import brokers_let_in


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


def spans(answer: Any) -> list[tuple[int, int, int]]:
    return [
        (each.first_offset, each.last_offset, each.delivery_count)
        for topic in answer.responses
        for data in topic.partitions
        for each in data.acquired_records
    ]


def test_unsent_records_are_neither_acquired_nor_delivered(broker: EmbeddedBroker) -> None:
    quotas = Counting()

    async def talk() -> None:
        made = ShareTalk(broker.bootstrap_servers)
        try:
            await made.set_up("work", "crew")
            await made.start_group("crew")
            await made.produce(*[b"job"] * 10)
            first = await made.fetch("crew", 0, max_records=4, batch_size=4)
            assert spans(first) == [(0, 9, 1)]  # all of a batch
            await made.produce(*[b"job"] * 5)
            broker.broker.dispatcher.use(RequestSecurity(quotas=quotas))
            quotas.withholds = True
            throttled = await made.fetch("crew", 1, (0, 9, [1]))
            assert throttled.throttle_time_ms == WAIT_MS
            assert not spans(throttled)
            (data,) = throttled.responses[0].partitions  # result of the acknowledgement
            assert not data.records
            assert not data.acknowledge_error_code
            quotas.withholds = False
            assert spans(await made.fetch("crew", 0, member="another")) == [(10, 14, 1)]
        finally:
            broker.broker.dispatcher.use(OPEN)
            made.close()

    with brokers_let_in(broker):
        asyncio.run(asyncio.wait_for(talk(), 60))
