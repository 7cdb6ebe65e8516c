from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from barnabas.client.admin import create_partitions, create_topic, delete_topics
from barnabas.client.cluster import Client
from barnabas.client.groups import commit_offsets
from barnabas.client.producer import Producer
from barnabas.common.clock import ManualClock
from barnabas.common.types import TopicPartition
from barnabas.services.console.history.history import History
from barnabas.services.console.sampling.sampler import Sampler
from barnabas.services.console.sampling.series import group_series, topic_series
from barnabas.services.console.sampling.snapshot import ClusterSnapshot
from barnabas.testing import EmbeddedBroker
from benchmarks.clients.cluster_fill import fill, partition_counts

NOW = int(time.time() * 1000)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@asynccontextmanager
async def sampling(
    bootstrap: str, history: History | None = None
) -> AsyncIterator[tuple[Sampler, ManualClock]]:
    clock = ManualClock(NOW)
    async with Client(bootstrap) as client:
        yield Sampler(client, history, clock=clock), clock


async def write(client: Client, topic: str, count: int) -> None:
    async with Producer(client) as producer:
        for number in range(count):
            await producer.send(topic, b"%d" % number, partition=0)


def test_rates_and_lag_come_from_two_refreshes(broker: EmbeddedBroker, tmp_path: Path) -> None:
    topic = broker.create_topic(partitions=2)

    async def scenario() -> None:
        history = History(tmp_path / "history.sqlite")
        await history.open()
        async with sampling(broker.bootstrap_servers, history) as (sampler, clock):
            tp = TopicPartition(topic, 0)
            await write(sampler.client, topic, 10)
            await commit_offsets(sampler.client, "readers", {tp: 4})
            first = await sampler.refresh()
            clock.advance(10_000)
            await write(sampler.client, topic, 50)
            await commit_offsets(sampler.client, "readers", {tp: 30})
            second = await sampler.refresh()
            names = await history.names()
            curve = await history.read(topic_series(topic, "in"), NOW, NOW + 30_000, 3)
        await history.close()

        assert (first.topics[topic].rate_in, first.groups["readers"].lag) == (None, 6)
        assert second.topics[topic].rate_in == pytest.approx(5)
        assert second.topics[topic].rate_out == pytest.approx(2.6)
        assert second.groups["readers"].rate == pytest.approx(2.6)
        assert second.worst[topic].lag == 30
        # Offset 30 is at 40 % of the range from 10 to 60, which took ten seconds.
        assert second.groups["readers"].lag_seconds == pytest.approx(6)
        assert {topic_series(topic, "in"), group_series("readers", "lag"), "cluster/in"} <= set(names)
        assert [value for value in curve.values if value] == [pytest.approx(5)]

    asyncio.run(scenario())


def test_topics_that_come_grow_and_go_are_followed(broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        async with sampling(broker.bootstrap_servers) as (sampler, clock):
            client = sampler.client
            await create_topic(client, "growing", partitions=1)
            await write(client, "growing", 3)
            assert (await sampler.refresh()).topics["growing"].ends == (3,)
            await create_partitions(client, "growing", 3)
            clock.advance(10_000)
            grown = (await sampler.refresh()).topics["growing"]
            assert (grown.ends, grown.rate_in, grown.starts) == ((3, 0, 0), 0.0, (0, 0, 0))
            assert grown.size > 0
            assert grown.sizes[0] == grown.size
            await delete_topics(client, ["growing"])
            assert "growing" not in (await sampler.refresh()).topics

    asyncio.run(scenario())


def test_recreated_topic_has_no_state_of_the_old_one(broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        async with sampling(broker.bootstrap_servers) as (sampler, clock):
            client = sampler.client
            await create_topic(client, "again", partitions=1)
            await write(client, "again", 30)
            await sampler.refresh()
            await delete_topics(client, ["again"])
            await create_topic(client, "again", partitions=1)
            await write(client, "again", 2)
            clock.advance(10_000)
            again = (await sampler.refresh()).topics["again"]
            assert (again.ends, again.rate_in) == ((2,), None)

    asyncio.run(scenario())


def test_removed_cluster_keeps_its_last_snapshot_with_a_message() -> None:
    async def scenario() -> None:
        with EmbeddedBroker() as going:
            topic = going.create_topic(partitions=1)
            async with sampling(going.bootstrap_servers) as (sampler, _):
                seen = await sampler.refresh()
                going.stop()
                after = await sampler.refresh()
        assert after.topics.keys() == seen.topics.keys() >= {topic}
        assert after.taken_ms == seen.taken_ms
        assert "No newer figures" in after.error
        assert "connect" in after.error

    asyncio.run(scenario())


def test_all_waiters_are_notified_of_each_snapshot(broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        async with sampling(broker.bootstrap_servers) as (sampler, _):
            watchers = [sampler.ticks(), sampler.ticks()]
            waiting = [asyncio.ensure_future(anext(each)) for each in watchers]
            await asyncio.sleep(0)
            snapshot = await sampler.refresh()
            assert await asyncio.gather(*waiting) == [snapshot, snapshot]
            assert await anext(sampler.ticks()) is snapshot

    asyncio.run(scenario())


TOPICS, PARTITIONS, GROUPS = 40, 600, 20  # more partitions than one answer has
MAX_TURN = 0.05
"""Seconds of CPU: ten times what it is."""


def test_a_large_cluster_is_read_whole_and_holds_the_loop_for_moments_only() -> None:
    async def scenario(bootstrap: str) -> None:
        await fill(bootstrap, TOPICS, PARTITIONS, GROUPS)
        async with sampling(bootstrap) as (sampler, clock):
            await sampler.refresh()  # codecs are compiled
            clock.advance(10_000)
            snapshot, iterations = await with_turns(sampler.refresh)
        counts = partition_counts(TOPICS, PARTITIONS)
        assert {name: len(snapshot.topics[name].ends) for name in counts} == counts
        assert all(min(snapshot.topics[name].ends) >= 0 for name in counts)
        assert len([name for name in snapshot.groups if name.startswith("billing-")]) == GROUPS
        assert all(group.lag is not None for group in snapshot.groups.values())
        assert snapshot.error == ""
        assert max(iterations) < MAX_TURN

    with EmbeddedBroker() as broker:
        asyncio.run(scenario(broker.bootstrap_servers))


async def with_turns(work: Callable[[], Awaitable[ClusterSnapshot]]) -> tuple[ClusterSnapshot, list[float]]:
    """Result of the work, and CPU seconds between event loop iterations."""
    iterations: list[float] = []

    async def probe() -> None:
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            iterations.append(time.thread_time() - began)

    probing = asyncio.create_task(probe())
    gc.disable()  # garbage of all tests before this one would be counted
    try:
        return await work(), iterations
    finally:
        gc.enable()
        probing.cancel()
