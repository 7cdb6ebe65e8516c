from __future__ import annotations

import asyncio

import pytest

from barnabas.client.cluster import Client
from barnabas.client.producer import Producer
from barnabas.services.console.sampling.sampler import Sampler
from barnabas.testing import EmbeddedCluster
from tests.support.waiting import async_eventually


@pytest.mark.java
def test_killed_broker_loses_only_its_own_metrics() -> None:
    async def scenario(cluster: EmbeddedCluster, topic: str) -> None:
        async with Client(cluster.bootstrap_servers) as client:
            sampler = Sampler(client)
            async with Producer(client) as producer:
                for partition in range(4):
                    await producer.send(topic, b"x", partition=partition)
            before = await sampler.refresh()
            assert (before.topics[topic].ends, before.error, len(before.brokers)) == ((1, 1, 1, 1), "", 2)
            own = [place.index for place in before.topics[topic].layout if place.leader == 1]
            cluster.kill(2)
            await async_eventually(sampler.refresh, lambda sample: sample.totals.offline)
            async with Producer(client) as producer:
                await producer.send(topic, b"x", partition=own[0])
            after = await sampler.refresh()
        assert after.topics[topic].offline == 2
        assert after.topics[topic].ends == tuple(2 if at == own[0] else 1 for at in range(4))
        assert after.taken_ms >= before.taken_ms

    with EmbeddedCluster(brokers=2) as cluster:
        asyncio.run(scenario(cluster, cluster.create_topic(partitions=4, replication_factor=1)))
