"""A broker that fails to apply a metadata entry retries, and never serves with an older image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from barnabas.broker.broker import Broker
from barnabas.cluster import follower as following
from barnabas.testing import EmbeddedBroker, EmbeddedCluster
from tests.support.waiting import until
from tests.support.zookeeper import require_zookeeper

DEADLINE = 60.0


class Failing:
    """A function that raises a number of times and then succeeds."""

    def __init__(self, real: Callable[..., Any], times: int) -> None:
        self._real = real
        self.left = times

    def __call__(self, *arguments: Any) -> Any:
        if self.left > 0:
            self.left -= 1
            raise RuntimeError("no thread can be started")
        return self._real(*arguments)


def produce(servers: str, topic: str) -> object:
    """The error of a record that is not tried again, None if it was written."""
    answers: list[object] = []
    producer = Producer({"bootstrap.servers": servers, "retries": 0, "message.timeout.ms": 10_000})
    producer.produce(topic, b"value", on_delivery=lambda error, _: answers.append(error))
    producer.flush(DEADLINE)
    return answers[0]


@pytest.mark.parametrize(
    "part", ["replicas.new_partitions", "use", "dynamic_config.update", "replicas.apply"]
)
def test_an_entry_that_could_not_be_acted_on_is_acted_on_again(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "RETRY_SECONDS", 0.01)
    with EmbeddedBroker() as embedded:
        *path, name = part.split(".")
        owner: Any = embedded.broker
        for each in path:
            owner = getattr(owner, each)
        failing = Failing(getattr(owner, name), times=2)
        monkeypatch.setattr(owner, name, failing)
        topic = embedded.create_topic(configs={"retention.ms": "12345"})
        assert failing.left == 0
        until(lambda: embedded.broker.replicas.find(topic, 0), "the partition is created")
        assert produce(embedded.bootstrap_servers, topic) is None
        assert not embedded.broker.is_fenced


def test_a_broker_that_cannot_follow_the_metadata_serves_nothing_and_others_take_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require_zookeeper()
    monkeypatch.setattr(following, "RETRY_SECONDS", 0.01)
    with EmbeddedCluster(brokers=2) as cluster:
        topic = cluster.create_topic(partitions=2)
        until(lambda: cluster.leader_of(topic) > 0, "it has a leader")
        victim = cluster.leader_of(topic)
        broker: Broker = cluster.brokers[victim].broker
        ended: list[bool] = []
        broker.on_metadata_failed = lambda: ended.append(True)
        monkeypatch.setattr(broker, "use", Failing(broker.use, times=1 << 30))
        other = cluster.brokers[3 - victim]
        other.create_topic("news")
        until(lambda: ended, "it gives up")
        assert broker.is_fenced
        partition = broker.replicas.by_name[topic][0]
        assert not partition.is_writable
        until(lambda: other.broker.image.partition(topic, 0).leader == 3 - victim, "the other leads")  # type: ignore[union-attr]
        assert produce(other.bootstrap_servers, topic) is None
        cluster.brokers[victim].restart()
        until(lambda: cluster.brokers[victim].broker.image.topics.get("news"), "it knows all after a restart")
        assert not cluster.brokers[victim].broker.is_fenced
