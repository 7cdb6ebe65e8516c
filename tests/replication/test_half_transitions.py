"""A leader transition that fails half way is retried until it is complete.

In Kafka the epoch was noted first (KAFKA-9307): the second try was taken for old news, and half of the change stayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.cluster.deltas import PartitionChanged, apply
from barnabas.cluster.image import MetadataImage, PartitionState
from barnabas.common.clock import SystemClock
from barnabas.common.cooperative import finish
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.config.broker import BrokerConfig
from barnabas.log.dirs.manager import LogManager
from barnabas.log.log import Log
from barnabas.metrics.topics import TopicCounters
from barnabas.replication.log_configs import LogConfigs
from barnabas.replication.manager import ReplicaManager
from barnabas.replication.partition import ALL_REPLICAS, Partition
from barnabas.testing.files import FaultyFileSystem
from tests.replication.conftest import NOW, state
from tests.support.builders.images import cluster_of, with_topic
from tests.support.clusters import Brokers
from tests.support.waiting import until

Batch = Callable[[], memoryview]
LED = PartitionState((1, 2), (1, 2), 1, leader_epoch=5)
FOLLOWED = PartitionState((1, 2), (1, 2), 2, leader_epoch=6, partition_epoch=1)
LED_AGAIN = PartitionState((1, 2), (1, 2), 1, leader_epoch=7, partition_epoch=2)


class Trouble:
    """Makes one step of a log fail until it is healed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.is_healed = False

    def at(self, step: str) -> None:
        complete = getattr(Log, step)

        def fail(log: Log, *args: Any) -> Any:
            if not self.is_healed:
                raise OSError(f"{step} fails")
            return complete(log, *args)

        self._monkeypatch.setattr(Log, step, fail)


@pytest.fixture
def trouble(monkeypatch: pytest.MonkeyPatch) -> Trouble:
    return Trouble(monkeypatch)


@pytest.fixture
def image() -> MetadataImage:
    return with_topic(cluster_of(2), "orders", LED)


@pytest.fixture
def replicas(tmp_path: Path, image: MetadataImage) -> ReplicaManager:
    config = BrokerConfig.load({"log.dirs": str(tmp_path)})
    logs = LogManager(FaultyFileSystem(), config.log_dirs, SystemClock(), config)
    made = ReplicaManager(1, logs, LogConfigs(config).of, TopicCounters)
    made.load(image)
    return made


def change(replicas: ReplicaManager, image: MetadataImage, new: PartitionState) -> MetadataImage:
    delta = PartitionChanged(image.topics["orders"].topic_id, 0, new)
    image = apply(image, [delta])
    for _ in replicas.apply(image, [delta]):
        pass
    return image


def the_partition(replicas: ReplicaManager) -> Partition:
    found = replicas.find("orders", 0)
    assert found is not None
    return found


def test_a_leader_that_cannot_become_a_follower_leads_no_longer_and_tries_again(
    replicas: ReplicaManager, image: MetadataImage, batch: Batch, trouble: Trouble
) -> None:
    partition = the_partition(replicas)
    partition.append(batch(), NOW, ALL_REPLICAS)
    received: list[ErrorCode] = []
    partition.when_committed(2, received.append)
    trouble.at("forget_unwritten_epochs")
    image = change(replicas, image, FOLLOWED)
    assert received == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    with pytest.raises(KafkaError, match="does not lead"):
        partition.append(batch(), NOW, 1)
    assert partition.leadership_error(-1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    followed_already = partition.follows_a_leader
    assert not followed_already
    assert partition.leader_epoch == LED.leader_epoch  # the new one is not known before it has begun
    assert not finish(replicas.try_again(lambda: image))
    trouble.is_healed = True
    assert finish(replicas.try_again(lambda: image))
    assert partition.follows_a_leader
    assert partition.leader_epoch == FOLLOWED.leader_epoch
    assert not finish(replicas.try_again(lambda: image))  # and that is the end of it


def test_a_follower_that_cannot_become_a_leader_tries_again(
    replicas: ReplicaManager, image: MetadataImage, batch: Batch, trouble: Trouble
) -> None:
    image = change(replicas, image, FOLLOWED)
    trouble.at("start_epoch")
    image = change(replicas, image, LED_AGAIN)
    partition = the_partition(replicas)
    assert not partition.is_leader
    assert not partition.is_writable
    trouble.is_healed = True
    assert finish(replicas.try_again(lambda: image))
    assert partition.append(batch(), NOW, ALL_REPLICAS).first_offset == 0
    assert partition.log.epochs.latest == LED_AGAIN.leader_epoch


def test_a_state_that_is_known_but_not_acted_on_is_no_old_news(partition: Partition, batch: Batch) -> None:
    """The last steps of a transition fail, when its epoch is known already."""

    class Watcher:
        failures = 1

        def partition_changed(self, new_bytes: int) -> None:
            if self.failures:
                self.failures -= 1
                raise RuntimeError("a watcher fails")

    partition.apply(state(isr=(1, 2), epoch=1))
    partition.append(batch(), NOW, ALL_REPLICAS)
    watcher = Watcher()
    partition.watch(watcher)
    became = state(leader=2, isr=(1, 2), epoch=2)
    with pytest.raises(RuntimeError):
        partition.apply(became)
    is_unsettled = partition.is_unsettled
    assert is_unsettled
    partition.apply(state(isr=(1, 2), epoch=1))  # older epochs are ignored
    assert partition.leader_epoch == 2
    partition.apply(became)
    assert not partition.is_unsettled
    assert partition.follows_a_leader


def test_all_waiters_are_notified_although_one_fails(partition: Partition, batch: Batch) -> None:
    partition.apply(state(isr=(1, 2), epoch=1))
    partition.append(batch(), NOW, ALL_REPLICAS)
    received: list[ErrorCode] = []

    def fail(error: ErrorCode) -> None:
        raise RuntimeError("one who waits fails")

    for callback in (received.append, fail, received.append):
        partition.when_committed(2, callback)
    with pytest.raises(RuntimeError):
        partition.apply(state(leader=2, isr=(1, 2), epoch=2))
    assert received == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2


def test_a_partition_that_fails_holds_up_no_other(tmp_path: Path, trouble: Trouble) -> None:
    before = with_topic(cluster_of(2), "orders", LED, LED)
    config = BrokerConfig.load({"log.dirs": str(tmp_path)})
    logs = LogManager(FaultyFileSystem(), config.log_dirs, SystemClock(), config)
    replicas = ReplicaManager(1, logs, LogConfigs(config).of, TopicCounters)
    replicas.load(before)
    response: list[Partition] = []

    def fail_for_the_first(partition: Partition) -> None:
        response.append(partition)
        if partition.index == 0 and not trouble.is_healed:
            raise RuntimeError("a fetcher cannot be started")

    replicas.on_applied = fail_for_the_first
    topic_id = before.topics["orders"].topic_id
    deltas = [PartitionChanged(topic_id, index, FOLLOWED) for index in range(2)]
    after = apply(before, deltas)
    for _ in replicas.apply(after, deltas):
        pass
    assert [partition.index for partition in response] == [0, 1]
    trouble.is_healed = True
    assert finish(replicas.try_again(lambda: after))
    assert [partition.index for partition in response] == [0, 1, 0]


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    with Brokers(tmp_path, 2, {"offsets.topic.replication.factor": "2"}) as running:
        yield running


def test_a_coordinator_that_cannot_be_left_is_left_at_the_next_try(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in KAFKA-9307 itself: a coordinator that has lost its session resigns in part, and must not stay like that."""
    broker = brokers.brokers[1]
    runtime = broker.coordinators.groups.runtime
    brokers.run(broker.coordinators.create_topic("__consumer_offsets"))
    until(lambda: any(True for _ in runtime.shards()), "no shard is loaded")
    shard_class = type(next(shard for _, shard in runtime.shards()))
    unload, failures = shard_class.unloaded, [RuntimeError("half way")]

    def fail_once(shard: Any) -> None:
        if failures:
            raise failures.pop()
        unload(shard)

    monkeypatch.setattr(shard_class, "unloaded", fail_once)
    coordinators = broker.coordinators

    async def lose_and_find() -> None:
        broker._view.is_fenced = True
        coordinators.follow()
        assert coordinators.is_behind
        assert [
            shard for _, shard in runtime.shards()
        ] == []  # the others have been removed, and no client is served

    brokers.run(lose_and_find())
    until(lambda: not coordinators.is_behind, "nobody has tried again")
    assert not failures

    async def come_back() -> None:
        broker._view.is_fenced = False
        coordinators.follow()

    brokers.run(come_back())
    until(lambda: any(True for _ in runtime.shards()), "no shard is loaded again")
