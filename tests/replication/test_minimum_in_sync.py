"""min.insync.replicas of a cluster: one value for leaders and controller, and changes of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from barnabas.cluster.image import PartitionState
from barnabas.replication.partition import Partition
from tests.replication.test_brokers import read_all
from tests.support.clusters import Brokers
from tests.support.kafka.jars import requires_java
from tests.support.kafka.tools import ToolResult, run_tool
from tests.support.waiting import until

MIN_ISR = "min.insync.replicas"


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    with Brokers(tmp_path, settings={MIN_ISR: "2", "auto.leader.rebalance.enable": "false"}) as running:
        yield running


def admin(brokers: Brokers) -> AdminClient:
    return AdminClient({"bootstrap.servers": brokers.bootstrap_servers})


def create(brokers: Brokers, topic: str) -> PartitionState:
    client = admin(brokers)
    client.create_topics([NewTopic(topic, 1, 3)])[topic].result(60)
    brokers.until_in_sync(topic, 3)
    return brokers.state(topic)


def change_topic(brokers: Brokers, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    client = admin(brokers)
    for future in client.incremental_alter_configs([resource]).values():
        future.result(60)


def produce(brokers: Brokers, topic: str, value: bytes, seconds: float = 30) -> KafkaError | None:
    """The error of one record with acks=all that waits for so long, or None when it is acknowledged."""
    settings = {"acks": "all", "message.timeout.ms": int(seconds * 1000), "retry.backoff.ms": 50}
    producer = Producer({"bootstrap.servers": brokers.bootstrap_servers, **settings})
    response: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        response.append(error)

    producer.produce(topic, value, partition=0, on_delivery=delivered)
    producer.flush(seconds + 30)
    return response[0]


def kafka_configs(brokers: Brokers, *arguments: str) -> ToolResult:
    return run_tool("kafka.admin.ConfigCommand", "--bootstrap-server", brokers.bootstrap_servers, *arguments)


def partition_of(brokers: Brokers, number: int, topic: str) -> Partition:
    found = brokers.brokers[number].replicas.find(topic, 0)
    assert found is not None
    return found


def test_nothing_that_was_committed_after_the_minimum_was_lowered_is_lost(brokers: Brokers) -> None:
    leader, *others = create(brokers, "orders").replicas
    assert produce(brokers, "orders", b"on all three") is None
    for number in others:
        brokers.kill(number)
        until(lambda removed=number: removed not in brokers.state("orders").isr, "it stays in the ISR")  # type: ignore[misc]
    assert brokers.state("orders").elr == (others[1],)
    assert produce(brokers, "orders", b"refused", seconds=1) is not None
    change_topic(brokers, "orders", MIN_ISR, "1")
    assert produce(brokers, "orders", b"on the leader alone") is None
    assert brokers.state("orders").elr == ()

    # A replica that returns while the leader is down lacks its committed records: no leader is better.
    brokers.start(others[0])
    until(lambda: others[0] in brokers.state("orders").isr, "it does not come back")
    brokers.kill(others[0])
    until(lambda: brokers.state("orders").isr == (leader,))
    brokers.kill(leader)
    brokers.start(others[1])
    until(lambda: brokers.any.image.brokers[leader].fenced, "the dead leader is not fenced")
    assert brokers.state("orders").leader == -1
    brokers.start(leader)
    until(lambda: brokers.state("orders").leader == leader, "the last leader does not lead again")
    brokers.until_in_sync("orders", 2)
    assert b"on the leader alone" in read_all(brokers, "orders")


def test_unclean_election_is_held_when_allowed_and_logged_and_counted(
    brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    leader, one, other = create(brokers, "orders").replicas
    for number in (one, other):
        brokers.kill(number)
        until(lambda removed=number: removed not in brokers.state("orders").isr)  # type: ignore[misc]
    change_topic(brokers, "orders", MIN_ISR, "1")
    assert produce(brokers, "orders", b"only on one") is None
    brokers.kill(leader)
    brokers.start(one)
    until(lambda: brokers.any.image.brokers[leader].fenced)
    assert brokers.state("orders").leader == -1
    change_topic(brokers, "orders", "unclean.leader.election.enable", "true")
    until(lambda: brokers.state("orders").leader == one, "nobody is elected")
    assert f"orders-0: broker {one} was elected leader although it was not in sync" in caplog.text
    counted = brokers.any.metrics.snapshot()
    assert counted["kafka_controller_controllerstats_uncleanleaderelections_total"] == 1
    assert produce(brokers, "orders", b"after the election") is None


def test_a_broker_added_by_hand_has_the_clusters_minimum(
    brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    create(brokers, "orders")
    brokers.stop(3)
    with caplog.at_level(logging.WARNING):
        brokers.start(3, {MIN_ISR: "1"})
    assert "barnabas configs set broker default min.insync.replicas=1" in caplog.text
    brokers.until_in_sync("orders", 3)
    assert {
        partition_of(brokers, number, "orders").log.config.min_insync_replicas for number in (1, 2, 3)
    } == {2}
    assert {broker.config[MIN_ISR] for broker in brokers.brokers.values()} == {2}


@requires_java
def test_kafkas_tool_changes_the_minimum_of_all_brokers_and_of_no_single_one(brokers: Brokers) -> None:
    create(brokers, "orders")
    every, one = ("--entity-default",), ("--entity-name", "1")
    of_brokers = ("--entity-type", "brokers", "--alter")
    refused = kafka_configs(brokers, *of_brokers, *one, "--add-config", f"{MIN_ISR}=1")
    assert refused.returncode != 0
    assert "Broker-level min.insync.replicas cannot be altered" in refused.stderr + refused.stdout
    refused = kafka_configs(brokers, *of_brokers, *every, "--delete-config", MIN_ISR)
    assert refused.returncode != 0
    assert "Cluster-level min.insync.replicas cannot be removed" in refused.stderr + refused.stdout
    kafka_configs(brokers, *of_brokers, *every, "--add-config", f"{MIN_ISR}=3").check()

    def known() -> bool:
        partitions = [partition_of(brokers, number, "orders") for number in brokers.brokers]
        return all(partition.log.config.min_insync_replicas == 3 for partition in partitions)

    until(known, "the setting does not arrive everywhere")
