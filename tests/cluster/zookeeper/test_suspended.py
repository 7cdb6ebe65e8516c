"""Brokers without a ZooKeeper link serve their led partitions until the session may have expired."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from barnabas.cluster.zookeeper.process import ZooKeeperProcess
from barnabas.cluster.zookeeper.types import SessionState
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from barnabas.records.builder import build_batch
from barnabas.records.record import Record
from barnabas.testing import EmbeddedBroker
from tests.support.clients import RawConnection, frame_of
from tests.support.proxies import Proxy
from tests.support.waiting import until

SESSION_MS = 5000
TIMEOUT = 60.0
TOPIC = "orders"
ALL, LEADER = -1, 1
_roots = itertools.count(1)


class Pair:
    """Two brokers; the first leads, is the controller, and reaches ZooKeeper through a proxy."""

    def __init__(self, zookeeper: ZooKeeperProcess, proxy: Proxy) -> None:
        root = f"suspended-{next(_roots)}"
        self.proxy = proxy
        self.leader = EmbeddedBroker(self._settings(1, f"{proxy.address}/{root}"))
        self.follower = EmbeddedBroker(self._settings(2, f"{zookeeper.address}/{root}"))

    def _settings(self, number: int, zookeeper: str) -> dict[str, str]:
        return {
            "node.id": str(number),
            "zookeeper.connect": zookeeper,
            "zookeeper.session.timeout.ms": str(SESSION_MS),
            "default.replication.factor": "2",
            "replica.lag.time.max.ms": "1000",
            "controlled.shutdown.enable": "false",
        }

    def start(self) -> None:
        self.leader.start()
        self.follower.start()
        until(lambda: len(self.leader.broker.image.brokers) == 2)
        topic = CreatableTopic(TOPIC, -1, -1, assignments=[CreatableReplicaAssignment(0, [1, 2])])
        with connected(self.leader) as connection:
            connection.ask(CreateTopicsRequest([topic], timeout_ms=30_000), 5)
        assert self.leader.broker.controller.is_active
        assert self.state().leader == 1

    def state(self) -> Any:
        return self.leader.broker.image.partition(TOPIC, 0)

    @property
    def link(self) -> SessionState:
        membership: Any = self.leader.broker._membership
        link: SessionState = membership._zk.link
        return link

    def stop(self) -> None:
        self.proxy.heal()
        for broker in (self.follower, self.leader):
            broker.stop()


@pytest.fixture
def pair(zookeeper: ZooKeeperProcess) -> Iterator[Pair]:
    with Proxy(zookeeper.host, zookeeper.port) as proxy:
        made = Pair(zookeeper, proxy)
        try:
            made.start()
            yield made
        finally:
            made.stop()


def a_record(acks: int, timeout_ms: int = 20_000) -> ProduceRequest:
    batch = build_batch([Record(0, 1_700_000_000_000, b"key", b"value")])
    data = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, batch)])]
    return ProduceRequest(None, acks, timeout_ms, data)


def produce(connection: RawConnection, acks: int) -> int:
    answer: Any = connection.ask(a_record(acks), 9)
    return int(answer.responses[0].partition_responses[0].error_code)


def high_watermark(connection: RawConnection) -> int:
    """As seen by a reader, who gets records up to there."""
    topics = [FetchTopic(topic=TOPIC, partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)])]
    answer: Any = connection.ask(FetchRequest(max_wait_ms=0, topics=topics), 11)
    partition = answer.responses[0].partitions[0]
    assert partition.error_code == ErrorCode.NONE
    assert bool(partition.records) == (partition.high_watermark > 0)
    return int(partition.high_watermark)


@contextmanager
def connected(broker: EmbeddedBroker) -> Iterator[RawConnection]:
    with RawConnection(broker.port, timeout=TIMEOUT) as connection:
        yield connection


def test_led_partitions_are_served_during_a_link_failure_until_the_session_may_have_expired(
    pair: Pair,
) -> None:
    epoch = pair.leader.broker.broker_epoch
    with connected(pair.leader) as connection:
        pair.proxy.cut()
        until(lambda: pair.link is SessionState.SUSPENDED)
        for number in range(1, 6):
            assert produce(connection, ALL) == ErrorCode.NONE
            assert produce(connection, LEADER) == ErrorCode.NONE
            until(lambda count=2 * number: high_watermark(connection) == count)  # type: ignore[misc]
        assert pair.link is SessionState.SUSPENDED  # all of that was meanwhile
        assert not pair.leader.broker.is_fenced
        pair.proxy.heal()
        until(lambda: pair.link is SessionState.CONNECTED)
        assert produce(connection, ALL) == ErrorCode.NONE
        assert (pair.leader.broker.broker_epoch, pair.state().isr) == (epoch, (1, 2))

        pair.proxy.cut()
        until(lambda: pair.leader.broker.is_fenced)
        for acks in (LEADER, ALL):
            assert produce(connection, acks) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        with connected(pair.follower) as other:  # the current leader, with all acknowledged records
            until(lambda: produce(other, LEADER) == ErrorCode.NONE)
            until(lambda: high_watermark(other) >= 11)


def test_no_isr_is_changed_while_the_link_of_the_controller_is_down(pair: Pair) -> None:
    with connected(pair.leader) as connection:
        assert produce(connection, ALL) == ErrorCode.NONE
        pair.proxy.cut()
        until(lambda: pair.link is SessionState.SUSPENDED)
        before = pair.state()
        pair.follower.kill()
        partition = pair.leader.broker.replicas.find(TOPIC, 0)
        assert partition is not None
        connection.send(frame_of(a_record(ALL), 9))
        until(lambda: partition.proposal is not None)  # the leader wants to continue without it
        assert pair.link is SessionState.SUSPENDED
        assert pair.state() == before
        assert partition.state == before
        assert partition.log.high_watermark == 1  # it counts until another decision
        pair.proxy.heal()
        assert connection.receive() is not None
        assert pair.state().isr == (1,)
        assert partition.log.high_watermark == 2
