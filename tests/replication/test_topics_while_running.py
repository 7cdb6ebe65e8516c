"""Topics are grown, deleted and recreated on a running cluster with stopped brokers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.replication.test_brokers import Writing, assert_replicas_are_equal, create, read_all
from tests.support.clusters import Brokers
from tests.support.waiting import until

# So that leaders go back where they belong as soon as that is noticed.
SETTINGS = {"leader.imbalance.check.interval.seconds": "1"}


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    with Brokers(tmp_path, 3, SETTINGS) as running:
        yield running


@pytest.fixture
def admin(brokers: Brokers) -> AdminClient:
    return AdminClient({"bootstrap.servers": brokers.bootstrap_servers, "log_level": 0})


def write(brokers: Brokers, topic: str, *values: str, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": brokers.bootstrap_servers, "acks": "all"})
    for value in values:
        producer.produce(topic, value.encode(), partition=partition)
    assert producer.flush(60) == 0


def test_a_preferred_leader_that_is_back_leads_again_by_itself(brokers: Brokers) -> None:
    create(brokers, "orders")
    writing = Writing(brokers, "orders")
    writing.write_more(brokers)
    preferred = brokers.state("orders").replicas[0]
    brokers.kill(preferred)
    until(lambda: brokers.state("orders").leader not in (preferred, -1), "nobody takes over")
    brokers.start(preferred)
    until(lambda: brokers.state("orders").leader == preferred, "leadership does not go back")
    writing.write_more(brokers)
    writing.finish()
    assert [int(value) for value in read_all(brokers, "orders")] == sorted(writing.acknowledged)


def test_topic_recreated_while_a_broker_was_down_is_the_new_one_there(
    brokers: Brokers, admin: AdminClient
) -> None:
    create(brokers, "orders")
    write(brokers, "orders", "old 1", "old 2", "old 3")
    away = next(number for number in brokers.brokers if number != brokers.controller)
    brokers.kill(away)
    until(lambda: len(brokers.state("orders").isr) == 2, "nobody notices")
    admin.delete_topics(["orders"])["orders"].result(60)
    until(lambda: "orders" not in brokers.any.image.topics, "the topic does not go")
    assignment = [[*brokers.brokers, away]]
    again = NewTopic("orders", 1, replica_assignment=assignment, config={"min.insync.replicas": "2"})
    admin.create_topics([again])["orders"].result(60)
    write(brokers, "orders", "new")
    brokers.start(away)
    brokers.until_in_sync("orders", 3)
    assert read_all(brokers, "orders") == [b"new"]
    assert brokers.brokers[away].replicas.by_name["orders"][0].log.log_end_offset == 1
    assert_replicas_are_equal(brokers, "orders")


def test_a_topic_grows_while_a_broker_is_away_which_then_follows_the_new_partitions_too(
    brokers: Brokers, admin: AdminClient
) -> None:
    create(brokers, "orders")
    writing = Writing(brokers, "orders")
    writing.write_more(brokers)
    away = next(number for number in brokers.brokers if number != brokers.controller)
    brokers.kill(away)
    until(lambda: len(brokers.state("orders").isr) == 2, "nobody notices")
    replicas = [[*brokers.brokers, away]] * 3
    grown = NewPartitions("orders", 4, replica_assignment=replicas)
    admin.create_partitions([grown])["orders"].result(60)
    write(brokers, "orders", "900000", "900001", partition=3)
    writing.write_more(brokers)
    brokers.start(away)
    brokers.until_in_sync("orders", 3)
    writing.write_more(brokers)
    writing.finish()
    found = sorted(int(value) for value in read_all(brokers, "orders", 4))
    assert found == [*sorted(writing.acknowledged), 900000, 900001]
    # The other producer may know the new partitions and write to them, too.
    assert_replicas_are_equal(brokers, "orders", 3)
    assert brokers.brokers[away].replicas.by_name["orders"][3].log.log_end_offset >= 2
