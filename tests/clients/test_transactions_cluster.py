"""Transactions over several brokers: coordinator, partitions and group on different brokers, which are killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.protocol.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE, partition_for
from barnabas.testing import EmbeddedCluster
from tests.clients.conftest import consume
from tests.clients.test_transactions_confluent import end_offsets, transactional
from tests.clients.test_transactions_crashes import fill, start_worker, wait_for_end, wait_for_progress
from tests.support.waiting import until
from tests.support.zookeeper import require_zookeeper

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

NAME = "payments"
TIMEOUT = 60.0
PORTION = 600  # inputs, in 200 transactions
COUNT = 4 * PORTION


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    require_zookeeper()
    settings = {"zookeeper.session.timeout.ms": "3000", "min.insync.replicas": "2"}
    with EmbeddedCluster(brokers=3, settings=settings) as running:
        yield running


def revive(cluster: EmbeddedCluster, node_id: int) -> None:
    """Start a broker again, and wait until it is in sync."""
    cluster.brokers[node_id].start()

    def is_in_sync() -> bool:
        topics = cluster.brokers[node_id].broker.image.topics.values()
        return all(node_id in partition.isr for topic in topics for partition in topic.partitions)

    until(is_in_sync, f"broker {node_id} in all ISRs", TIMEOUT)


def test_a_transaction_survives_the_loss_of_its_coordinator(cluster: EmbeddedCluster) -> None:
    topic = cluster.create_topic(partitions=3)
    bootstrap = cluster.bootstrap_servers
    producer = transactional(bootstrap, NAME)
    producer.begin_transaction()
    for partition in range(3):
        producer.produce(topic, b"before", partition=partition)
    assert producer.flush(TIMEOUT) == 0
    known = cluster.running[0].broker
    until(lambda: TRANSACTION_STATE in known.image.topics, "the topic of transactions")
    state = known.image.topics[TRANSACTION_STATE]
    coordinator = cluster.leader_of(TRANSACTION_STATE, partition_for(NAME, len(state.partitions)))
    cluster.kill(coordinator)
    for partition in range(3):
        producer.produce(topic, b"after", partition=partition)
    producer.commit_transaction(TIMEOUT)
    for partition in range(3):
        found = consume(bootstrap, topic, 2, partition=partition, isolation_level="read_committed")
        assert [message.value() for message in found] == [b"before", b"after"]
    revive(cluster, coordinator)


def output_leader(cluster: EmbeddedCluster) -> int:
    return cluster.leader_of("output")


def group_coordinator(cluster: EmbeddedCluster) -> int:
    """Of the worker's group."""
    partitions = len(cluster.running[0].broker.image.topics[CONSUMER_OFFSETS].partitions)
    return cluster.leader_of(CONSUMER_OFFSETS, partition_for("workers-input", partitions))


@pytest.mark.timeout(900)
def test_each_input_is_processed_exactly_once_while_brokers_die(cluster: EmbeddedCluster) -> None:
    bootstrap = cluster.bootstrap_servers
    for name in ("input", "output"):
        cluster.create_topic(name)
    values: list[bytes] = []
    worker = start_worker("confluent", bootstrap, COUNT)
    try:
        for find_victim in (output_leader, group_coordinator):
            done = len(values)
            values += fill(bootstrap, "input", PORTION, first=done)
            wait_for_progress(bootstrap, done + 1)
            victim = find_victim(cluster)
            cluster.kill(victim)
            values += fill(bootstrap, "input", PORTION, first=done + PORTION)
            wait_for_progress(bootstrap, len(values))
            revive(cluster, victim)
        assert wait_for_end(worker, bootstrap, COUNT) == 0
    finally:
        worker.kill()
        worker.wait()
    found = consume(bootstrap, "output", COUNT, isolation_level="read_committed")
    assert [message.value() for message in found] == values
    isolations = (
        "read_committed",
        "read_uncommitted",
    )  # the last marker may still be on its way to the followers
    until(
        lambda: len({end_offsets(bootstrap, "output", isolation) for isolation in isolations}) == 1,
        "the end of the last transaction",
    )
