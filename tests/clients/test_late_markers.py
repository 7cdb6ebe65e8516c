"""Transaction markers delivered late, after the coordinator has resent them over another connection."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from barnabas.client.cluster import Client
from barnabas.client.retry import RetryPolicy, retry
from barnabas.client.transactions import TRANSACTION
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.metadata import FindCoordinatorRequest
from barnabas.testing import EmbeddedCluster
from tests.support.kafka.tools import java_command
from tests.support.programs import free_port
from tests.support.proxies import DEADLINE, FrameProxy
from tests.support.zookeeper import require_zookeeper

pytestmark = [pytest.mark.slow, pytest.mark.java]

NAME = "payments"
TOPIC = "orders"
GROUP = 0  # the key type of FindCoordinator
PROGRAM = Path(__file__).parent / "java" / "PendingOffsets.java"
INVALID_PRODUCER_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH.to_bytes(2, "big")


@contextlib.contextmanager
def proxied_cluster() -> Iterator[tuple[EmbeddedCluster, dict[int, FrameProxy]]]:
    """Two brokers that clients, and each other, reach through proxies only. Partitions have one replica."""
    require_zookeeper()
    replicas = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")
    settings = dict.fromkeys((*replicas, "transaction.state.log.min.isr"), "1")
    cluster = EmbeddedCluster(brokers=2, settings={**settings, "offsets.topic.num.partitions": "2"})
    with contextlib.ExitStack() as stack:
        proxies = {node_id: stack.enter_context(FrameProxy()) for node_id in cluster.brokers}
        for node_id, broker in cluster.brokers.items():
            broker.port = free_port()
            broker.settings["advertised.listeners"] = f"PLAINTEXT://{proxies[node_id].address}"
            proxies[node_id].forward_to(broker.host, broker.port)
        stack.enter_context(cluster)
        yield cluster, proxies


def coordinators(bootstrap: str, names: list[str], kind: int) -> dict[str, int]:
    async def ask() -> dict[str, int]:
        async with Client(bootstrap) as client:

            async def attempt() -> dict[str, int]:
                request = FindCoordinatorRequest(coordinator_keys=names, key_type=kind)
                found = (await client.send_to_any(request)).coordinators
                for one in found:
                    if one.error_code:
                        raise KafkaError(ErrorCode(one.error_code))
                return {one.key: one.node_id for one in found}

            return await retry(attempt, RetryPolicy(DEADLINE))

    return asyncio.run(ask())


def group_elsewhere(bootstrap: str) -> tuple[str, int]:
    """A group that another broker coordinates than the transactional id, and that broker."""
    coordinator = coordinators(bootstrap, [NAME], TRANSACTION)[NAME]
    groups = coordinators(bootstrap, [f"readers-{number}" for number in range(10)], GROUP)
    return next((group, node_id) for group, node_id in groups.items() if node_id != coordinator)


def committed(bootstrap: str, group: str, isolation: str) -> int:
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": isolation}
    consumer = Consumer(settings)
    try:
        return int(consumer.committed([TopicPartition(TOPIC, 0)], DEADLINE)[0].offset)
    finally:
        consumer.close()


def test_a_marker_that_arrives_late_does_not_commit_the_offsets_of_the_next_transaction() -> None:
    with proxied_cluster() as (cluster, proxies):
        bootstrap = cluster.bootstrap_servers
        cluster.create_topic(TOPIC)
        group, leader = group_elsewhere(bootstrap)
        late = proxies[leader].hold(ApiKey.WRITE_TXN_MARKERS)
        with subprocess.Popen(
            java_command(str(PROGRAM), bootstrap, TOPIC, group, NAME),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as java:  # fmt: skip
            try:
                assert java.stdout is not None
                assert java.stdin is not None
                assert java.stdout.readline() == "pending\n"
                assert INVALID_PRODUCER_EPOCH in late.deliver()
                assert committed(bootstrap, group, "read_uncommitted") == 10
                java.stdin.write("abort\n")
                java.stdin.flush()
                assert java.stdout.readline() == "aborted\n"
                assert committed(bootstrap, group, "read_committed") == 10
            finally:
                java.kill()
