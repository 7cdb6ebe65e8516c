"""A partition over a real log in a temporary folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.cluster.image import PartitionState
from barnabas.common.files import LocalFileSystem
from barnabas.common.types import TopicPartition, new_uuid
from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import topic_log_config
from barnabas.log.dirs.disk import Disk
from barnabas.log.dirs.placement import create_log
from barnabas.log.log import Log
from barnabas.log.segments.segment_file import OpenSegments
from barnabas.metrics.topics import TopicCounters
from barnabas.records.builder import build_batch
from barnabas.records.record import Record
from barnabas.replication.partition import Partition

NOW = 1_700_000_000_000


@pytest.fixture
def log(tmp_path: Path) -> Log:
    files, folder = LocalFileSystem(), str(tmp_path)
    config = topic_log_config(BrokerConfig.load({}), {"min.insync.replicas": "2"})
    return create_log(
        files,
        folder,
        TopicPartition("orders", 0),
        new_uuid(),
        config,
        disk=Disk(files, folder),
        open_segments=OpenSegments(),
        now_ms=NOW,
    )


@pytest.fixture
def partition(log: Log) -> Partition:
    return Partition("orders", 0, log.topic_id, log, 1, TopicCounters("orders"))


def state(
    leader: int = 1,
    epoch: int = 0,
    version: int = 0,
    isr: tuple[int, ...] = (1,),
    replicas: tuple[int, ...] = (1, 2, 3),
) -> PartitionState:
    return PartitionState(replicas, isr, leader, leader_epoch=epoch, partition_epoch=version)


@pytest.fixture
def batch() -> Callable[[], memoryview]:
    return lambda: memoryview(
        build_batch([Record(0, NOW, b"key", b"value"), Record(1, NOW, b"key", b"value")])
    )
