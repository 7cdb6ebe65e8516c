"""Quotas: charges, rejections and muting."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.network.requests.rules import OPEN, RequestSecurity
from barnabas.network.requests.time_slices import Stopwatch, timed
from barnabas.protocol.messages import fetch, produce, topics
from barnabas.protocol.messages.replication import AllocateProducerIdsRequest
from barnabas.records.builder import build_batch
from barnabas.records.record import Record
from barnabas.security.context import RequestContext
from barnabas.security.quotas import QuotaKind, Usage
from barnabas.security.quotas.interface import UNBOUNDED
from barnabas.testing import EmbeddedBroker
from tests.support.clients import RawConnection, frame_of
from tests.support.server import brokers_let_in

WAIT_MS = 60


class Counting:
    """Quotas that are exceeded from the first byte on, and by the second partition."""

    kinds = frozenset(QuotaKind)

    def __init__(self) -> None:
        self.usage: list[Usage] = []
        self.mutations = 0
        self.withholds = False

    def charge(self, context: RequestContext, usage: Usage) -> int:
        self.usage.append(usage)
        return WAIT_MS if usage.produced_bytes or usage.fetched_bytes else 0

    def charge_fetch(self, context: RequestContext, usage: Usage) -> int:
        self.usage.append(usage)
        return WAIT_MS if self.withholds else 0

    def fetch_room(self, context: RequestContext) -> int:
        return UNBOUNDED

    def admit(self, context: RequestContext, mutations: int, *, is_strict: bool) -> int:
        if self.mutations + mutations > 1 and is_strict:
            return WAIT_MS
        self.mutations += mutations
        return WAIT_MS if self.mutations > 1 else 0


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        running.create_topic("counted")
        yield running


@contextmanager
def counting(broker: EmbeddedBroker) -> Iterator[Counting]:
    quotas = Counting()
    broker.broker.dispatcher.use(RequestSecurity(quotas=quotas))
    try:
        yield quotas
    finally:
        broker.broker.dispatcher.use(OPEN)


def of_records(count: int) -> produce.ProduceRequest:
    batch = build_batch([Record(0, 1_700_000_000_000, b"key", bytes(count))])
    data = [produce.TopicProduceData("counted", partition_data=[produce.PartitionProduceData(0, batch)])]
    return produce.ProduceRequest(None, 1, 2000, data)


def a_fetch(session_id: int = 0, epoch: int = -1, *, names_it: bool = True) -> fetch.FetchRequest:
    wanted = fetch.FetchTopic(
        topic="counted", partitions=[fetch.FetchPartition(partition=0, partition_max_bytes=100_000)]
    )
    return fetch.FetchRequest(
        max_wait_ms=0, topics=[wanted] if names_it else [], session_id=session_id, session_epoch=epoch
    )


def test_request_is_charged_by_length_and_its_throttle_time_is_returned(
    broker: EmbeddedBroker,
) -> None:
    with counting(broker) as quotas, RawConnection(broker.port) as connection:
        request = of_records(1000)
        began = time.monotonic()
        answer: Any = connection.ask(request, 9)
        assert answer.throttle_time_ms == WAIT_MS
        got: Any = connection.ask(a_fetch(), 12)
        assert time.monotonic() - began >= WAIT_MS / 1000 * 0.9
        assert got.throttle_time_ms == 0
        records = got.responses[0].partitions[0].records
    (usage,) = [usage for usage in quotas.usage if usage.produced_bytes]
    assert usage.produced_bytes == pytest.approx(len(frame_of(request, 9)) - 4, abs=8)
    (usage,) = [usage for usage in quotas.usage if usage.fetched_bytes]
    assert usage.fetched_bytes == pytest.approx(len(records) + 72, abs=8)
    assert all(0 < usage.seconds < 10 for usage in quotas.usage)


def test_a_producer_without_acknowledgements_is_muted_without_an_answer(broker: EmbeddedBroker) -> None:
    with counting(broker) as quotas, RawConnection(broker.port) as connection:
        request = of_records(1000)
        request.acks = 0
        began = time.monotonic()  # the broker may mute the client before `send` has returned
        connection.send(frame_of(request, 9))
        assert connection.is_served()
        assert time.monotonic() - began >= WAIT_MS / 1000 * 0.9
    assert [usage.seconds for usage in quotas.usage if usage.produced_bytes] == [0.0]


def test_the_longest_of_several_waits_counts(broker: EmbeddedBroker) -> None:
    with counting(broker), RawConnection(broker.port) as connection:
        began = time.monotonic()
        connection.send(frame_of(of_records(10), 9) * 2)
        assert connection.receive() is not None
        assert connection.receive() is not None, "the second one is read when the first wait is over"
        assert connection.is_served()
        assert time.monotonic() - began >= 2 * WAIT_MS / 1000 * 0.9


def test_a_fetch_above_the_quota_gets_nothing_now_and_all_of_it_later(broker: EmbeddedBroker) -> None:
    """As from Kafka: an empty answer, and the session is where it was."""
    with counting(broker) as quotas, RawConnection(broker.port) as connection:
        connection.ask(of_records(1000), 9)
        quotas.withholds = True
        sent = broker.broker.topic_metrics.of("counted").bytes_out.value
        first: Any = connection.ask(a_fetch(epoch=0), 12)
        assert (first.throttle_time_ms, first.responses, first.session_id) == (WAIT_MS, [], 0)
        assert not len(broker.broker.fetch_sessions), "nobody would come back to it"
        quotas.withholds = False
        opened: Any = connection.ask(a_fetch(epoch=0), 12)
        assert opened.responses[0].partitions[0].records
        quotas.withholds = True
        next_one: Any = connection.ask(a_fetch(opened.session_id, 1), 12)
        assert (next_one.throttle_time_ms, next_one.responses) == (WAIT_MS, [])
        assert next_one.session_id == opened.session_id
        quotas.withholds = False
        again: Any = connection.ask(a_fetch(opened.session_id, 2, names_it=False), 12)
        assert again.responses[0].partitions[0].records == opened.responses[0].partitions[0].records
    assert broker.broker.topic_metrics.of("counted").bytes_out.value - sent == 2 * len(
        again.responses[0].partitions[0].records
    )


def test_a_coroutine_is_charged_for_the_time_that_it_runs_not_for_the_time_that_it_waits() -> None:
    async def works_and_waits() -> int:
        began = time.monotonic()
        while time.monotonic() < began + 0.02:
            pass
        await asyncio.sleep(0.5)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.sleep(30)
        return 7

    watch = Stopwatch()

    async def main() -> int:
        return await timed(works_and_waits(), watch)

    assert asyncio.run(main()) == 7
    assert 0.02 <= watch.seconds < 0.4


def test_a_strict_request_is_refused_beyond_the_quota_of_the_controller(broker: EmbeddedBroker) -> None:
    with counting(broker), RawConnection(broker.port) as connection:
        wanted = [topics.CreatableTopic(name, 1, 1) for name in ("first", "second")]
        answer: Any = connection.ask(topics.CreateTopicsRequest(wanted, 10_000), 6)
    codes = {topic.name: topic.error_code for topic in answer.topics}
    assert codes == {"first": ErrorCode.NONE, "second": ErrorCode.THROTTLING_QUOTA_EXCEEDED}
    assert answer.throttle_time_ms == WAIT_MS
    assert "second" not in broker.broker.image.topics


def test_another_is_carried_out_and_its_client_muted(broker: EmbeddedBroker) -> None:
    with counting(broker), RawConnection(broker.port) as connection:
        wanted = [topics.CreatableTopic(name, 1, 1) for name in ("third", "fourth")]
        answer: Any = connection.ask(topics.CreateTopicsRequest(wanted, 10_000), 5)
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.NONE}
    assert answer.throttle_time_ms == WAIT_MS
    assert "fourth" in broker.broker.image.topics


def test_a_request_that_is_answered_later_is_charged_once(broker: EmbeddedBroker) -> None:
    with counting(broker) as quotas, RawConnection(broker.port) as connection:
        request = of_records(1000)
        request.acks = -1
        answer: Any = connection.ask(request, 9)
    assert answer.throttle_time_ms == WAIT_MS
    assert len([usage for usage in quotas.usage if usage.produced_bytes]) == 1


def test_a_request_in_parts_is_charged_for_all_of_them(broker: EmbeddedBroker) -> None:
    broker.create_topic("wide", partitions=3)
    batch = bytes(build_batch([Record(0, 1_700_000_000_000, b"key", bytes(100))]))
    partitions = [produce.PartitionProduceData(number % 3, batch) for number in range(1_200)]
    request = produce.ProduceRequest(
        None, 1, 2000, [produce.TopicProduceData("wide", partition_data=partitions)]
    )
    with counting(broker) as quotas, RawConnection(broker.port) as connection:
        answer: Any = connection.ask(request, 9)
    assert answer.throttle_time_ms == WAIT_MS
    assert sum(usage.produced_bytes for usage in quotas.usage) >= 1_200 * len(batch)


def test_a_client_is_not_taken_for_a_broker_by_the_name_that_it_gives_itself(broker: EmbeddedBroker) -> None:
    """On an unauthenticated listener shared with brokers."""
    with brokers_let_in(broker), counting(broker) as quotas, RawConnection(broker.port) as connection:
        connection.send(frame_of(of_records(1000), 9, client_id="barnabas-broker-2"))
        assert connection.receive() is not None
        assert [usage for usage in quotas.usage if usage.produced_bytes]


def test_requests_of_brokers_are_not_counted(broker: EmbeddedBroker) -> None:
    """As with Kafka: replica fetches, and broker-only requests."""
    replicas = a_fetch()
    replicas.replica_id = 2
    ids = AllocateProducerIdsRequest(2, 7)
    with brokers_let_in(broker), counting(broker) as quotas, RawConnection(broker.port) as connection:
        connection.ask(replicas, 12)
        connection.ask(ids, 0)
        assert not quotas.usage
        connection.ask(a_fetch(), 12)
        assert quotas.usage
    with counting(broker) as quotas, RawConnection(broker.port) as connection:
        connection.ask(replicas, 12)
        assert quotas.usage, "no broker comes here"
