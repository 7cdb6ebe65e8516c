"""Only an assigned replica with its current broker epoch may fetch as a follower: others could move the high
watermark."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from barnabas.client.connection import BrokerConnection
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from barnabas.testing import EmbeddedCluster
from tests.support.waiting import until
from tests.support.zookeeper import require_zookeeper

BEFORE_REPLICA_EPOCHS = 14


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    require_zookeeper()
    with EmbeddedCluster(brokers=2) as running:
        yield running


@pytest.fixture(scope="module")
def topic(cluster: EmbeddedCluster) -> str:
    """With one replica: the other broker holds nothing of it."""
    name = cluster.create_topic("led-by-one", replication_factor=1)
    until(
        lambda: not any(name not in broker.broker.image.topics for broker in cluster.running),
        "not every broker has heard of the topic",
    )
    return name


def fetch(
    cluster: EmbeddedCluster, topic: str, replica: ReplicaState, version: int | None = None
) -> FetchResponse:
    leader = cluster.brokers[cluster.leader_of(topic)]
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    request = FetchRequest(
        topics=[
            FetchTopic(topic_id=leader.broker.image.topics[topic].topic_id, topic=topic, partitions=[wanted])
        ]
    )
    if version is None:
        request.replica_state = replica
    else:
        request.replica_id = replica.replica_id

    async def work() -> FetchResponse:
        connection = await BrokerConnection.connect(leader.host, leader.port)
        try:
            response: FetchResponse = await connection.send(request, version)
            return response
        finally:
            connection.close()

    return asyncio.run(work())


def other(cluster: EmbeddedCluster, topic: str) -> ReplicaState:
    """A broker that is alive, in its present life, and no replica of the topic."""
    leader = cluster.leader_of(topic)
    (broker_id,) = cluster.brokers.keys() - {leader}
    return ReplicaState(broker_id, cluster.brokers[leader].broker.image.brokers[broker_id].epoch)


def test_registration_of_an_earlier_or_unknown_broker_is_rejected(
    cluster: EmbeddedCluster, topic: str
) -> None:
    alive = other(cluster, topic)
    for impostor in (ReplicaState(alive.replica_id, alive.replica_epoch - 1), ReplicaState(77, 1)):
        assert fetch(cluster, topic, impostor).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_broker_without_a_replica_of_the_partition_gets_nothing_of_it(
    cluster: EmbeddedCluster, topic: str
) -> None:
    (answer,) = fetch(cluster, topic, other(cluster, topic)).responses[0].partitions
    assert answer.error_code != ErrorCode.NONE
    assert not answer.records


def test_a_follower_that_cannot_name_its_life_is_refused(cluster: EmbeddedCluster, topic: str) -> None:
    response = fetch(cluster, topic, other(cluster, topic), BEFORE_REPLICA_EPOCHS)
    (answer,) = response.responses[0].partitions
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
