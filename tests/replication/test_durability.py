"""Durability of a record: committed and, if one machine has all its replicas, flushed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.cluster.image import PartitionState
from barnabas.common.errors import ErrorCode
from barnabas.metrics.topics import TopicCounters
from barnabas.replication.durability import Durability
from barnabas.replication.flusher import Flusher
from barnabas.replication.partition import ALL_REPLICAS, Partition
from barnabas.testing.files import FaultyFileSystem
from tests.support.builders.logs import NOW, TOPIC_ID, batch, new_log


class Later:
    """Runs flushes on demand."""

    def __init__(self) -> None:
        self.work: list[Callable[[], None]] = []

    def run(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        def both() -> None:
            work()
            done(None)

        self.work.append(both)

    def go(self) -> None:
        work, self.work = self.work, []
        for each in work:
            each()


@pytest.fixture
def later() -> Later:
    return Later()


@pytest.fixture
def partition() -> Partition:
    partition = Partition(
        "orders", 0, TOPIC_ID, new_log("/data/orders-0", fs=FaultyFileSystem()), 1, TopicCounters("orders")
    )
    partition.apply(PartitionState((1,), (1,), 1))
    partition.append(memoryview(batch(b"a")), NOW, ALL_REPLICAS)
    return partition


def durability_of(later: Later, fsync: str) -> Durability:
    return Durability(Flusher(later, lambda log, error: None), fsync)


@pytest.mark.parametrize("fsync", ["auto", "always"])
def test_records_of_a_single_replica_are_durable_after_a_flush(
    later: Later, partition: Partition, fsync: str
) -> None:
    waiting, received = durability_of(later, fsync), list[ErrorCode]()
    end = partition.log.log_end_offset
    waiting.when(partition, end, received.append)
    assert (waiting.is_durable(partition, end), received) == (False, [])
    later.go()
    assert (waiting.is_durable(partition, end), received) == (True, [ErrorCode.NONE])


def test_committed_records_are_safe_with_fsync_never(later: Later, partition: Partition) -> None:
    waiting, received = durability_of(later, "never"), list[ErrorCode]()
    waiting.when(partition, partition.log.log_end_offset, received.append)
    assert received == [ErrorCode.NONE]
    assert waiting.is_durable(partition, partition.log.log_end_offset)


def test_records_with_acks_1_are_durable_after_a_flush(later: Later, partition: Partition) -> None:
    waiting, received = durability_of(later, "always"), list[ErrorCode]()
    end = partition.log.log_end_offset
    waiting.when(partition, end, received.append, acks=1)
    assert (waiting.is_durable(partition, end, acks=1), received) == (True, [ErrorCode.NONE])
    assert not waiting.is_durable(partition, end + 1, acks=1)
    assert not later.work


def test_late_commits_get_an_error(later: Later, partition: Partition) -> None:
    waiting, received = durability_of(later, "never"), list[ErrorCode]()
    waiting.when(partition, partition.log.log_end_offset + 1, received.append)
    partition.apply(PartitionState((1, 2), (2,), 2, 1))
    assert received == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
