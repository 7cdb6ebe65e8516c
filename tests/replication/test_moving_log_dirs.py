"""Replicas of one partition move between the log dirs of their brokers while its leader changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.broker.broker import Broker
from barnabas.common.types import TopicPartition
from tests.replication.test_brokers import Writing, assert_replicas_are_equal, create, read_all
from tests.support.clusters import Brokers
from tests.support.waiting import until

TP = TopicPartition("orders", 0)


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    with Brokers(tmp_path, 3, {"replica.alter.log.dirs.io.max.bytes.per.second": "0"}, disks=2) as running:
        yield running


def elsewhere(broker: Broker) -> str:
    here = broker.logs.dir_of(TP)
    return next(os.path.abspath(each.folder) for each in broker.logs.dirs if each is not here)


def move(brokers: Brokers, number: int) -> str:
    target = elsewhere(brokers.brokers[number])

    async def ask() -> None:
        brokers.brokers[number].moves.move(TP, target)

    brokers.run(ask())
    return target


def test_every_replica_moves_while_the_leader_dies_and_comes_back(brokers: Brokers) -> None:
    create(brokers, "orders")
    writing = Writing(brokers, "orders")
    writing.write_more(brokers)
    targets = {number: move(brokers, number) for number in brokers.brokers}
    leader = brokers.state("orders").leader
    brokers.kill(leader)
    until(lambda: brokers.state("orders").leader not in (leader, -1), "nobody takes over")
    writing.write_more(brokers)
    brokers.start(leader)
    for broker in brokers.brokers.values():
        broker.moves.throttle.rate = 1 << 40
    writing.write_more(brokers)
    until(lambda: not any(list(broker.logs.moves) for broker in brokers.brokers.values()), "moves do not end")
    writing.write_more(brokers)
    writing.finish()
    brokers.until_in_sync("orders", 3)
    assert [int(value) for value in read_all(brokers, "orders")] == sorted(writing.acknowledged)
    assert_replicas_are_equal(brokers, "orders")
    for number, target in targets.items():
        log_dir = brokers.brokers[number].logs.dir_of(TP)
        assert log_dir is not None
        assert os.path.abspath(log_dir.folder) == target
