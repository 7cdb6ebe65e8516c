"""All partitions of a broker follow the metadata image."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from barnabas.cluster.deltas import ConfigsChanged, PartitionChanged, apply
from barnabas.cluster.difference import difference
from barnabas.cluster.image import ConfigResourceType, PartitionState
from barnabas.common.clock import SystemClock
from barnabas.common.files import LocalFileSystem
from barnabas.config.broker import BrokerConfig
from barnabas.log.dirs.manager import LogManager
from barnabas.metrics.topics import TopicCounters
from barnabas.replication.log_configs import LogConfigs
from barnabas.replication.manager import ReplicaManager
from barnabas.replication.partition import ALL_REPLICAS
from tests.replication.conftest import NOW
from tests.support.builders.images import cluster_of, with_topic


def manager(folder: Path) -> ReplicaManager:
    config = BrokerConfig.load({"log.dirs": str(folder)})
    logs = LogManager(LocalFileSystem(), config.log_dirs, SystemClock(), config)
    return ReplicaManager(1, logs, LogConfigs(config).of, TopicCounters)


def test_a_leader_that_fell_behind_takes_a_state_over_with_the_settings_of_its_image(
    tmp_path: Path, batch: Callable[[], memoryview]
) -> None:
    before = with_topic(cluster_of(2), "orders", PartitionState((1, 2), (1, 2), 1))
    topic = before.topics["orders"]
    replicas = manager(tmp_path)
    replicas.load(before)
    partition = replicas.find("orders", 0)
    assert partition is not None
    partition.append(batch(), NOW, ALL_REPLICAS)
    # The minimum was raised, and then the follower left the ISR: it is eligible, and lacks these records.
    raised = ConfigsChanged(ConfigResourceType.TOPIC, "orders", {"min.insync.replicas": "2"})
    left = PartitionChanged(topic.topic_id, 0, PartitionState((1, 2), (1,), 1, partition_epoch=1, elr=(2,)))
    after = apply(before, [raised, left])
    missed = difference(before, after)
    assert [type(delta) for delta in missed] == [PartitionChanged, ConfigsChanged]
    for _ in replicas.apply(after, missed):
        assert partition.log.high_watermark == 0
    assert partition.log.config.min_insync_replicas == 2
    assert partition.log.high_watermark == 0
