"""A lost machine is replaced by an empty one."""

from __future__ import annotations

import shutil

import pytest
from confluent_kafka import Producer

from barnabas.testing import EmbeddedCluster
from tests.support.waiting import until
from tests.support.zookeeper import require_zookeeper

DEADLINE = 60.0
RECORDS = 500


@pytest.mark.slow
def test_a_broker_with_an_empty_folder_copies_everything_and_loses_nothing() -> None:
    require_zookeeper()
    with EmbeddedCluster(brokers=3, settings={"zookeeper.session.timeout.ms": "3000"}) as cluster:
        topic = cluster.create_topic(configs={"min.insync.replicas": "2"})
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
        for number in range(RECORDS):
            producer.produce(topic, str(number).encode())
        assert producer.flush(DEADLINE) == 0
        lost = cluster.leader_of(topic)
        cluster.kill(lost)
        shutil.rmtree(cluster.brokers[lost].data_dir)
        cluster.brokers[lost].start()
        # One broker may not know yet that the lost one left the ISR.
        until(lambda: ends(cluster, topic) == [RECORDS] * 3)
        until(lambda: in_sync(cluster, topic) == {1, 2, 3})


def ends(cluster: EmbeddedCluster, topic: str) -> list[int]:
    replicas = [broker.broker.replicas.find(topic, 0) for broker in cluster.brokers.values()]
    return [replica.log.log_end_offset for replica in replicas if replica is not None]


def in_sync(cluster: EmbeddedCluster, topic: str) -> set[int]:
    state = cluster.running[0].broker.image.partition(topic, 0)
    assert state is not None
    return set(state.isr)
