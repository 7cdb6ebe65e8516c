"""ListOffsets and DeleteRecords of a tiered partition, as Apache Kafka 4.3.1 answers with its LocalTieredStorage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from barnabas.handlers.offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST_TIERED,
    delete_records,
    list_offsets,
)
from barnabas.protocol.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.replication.partition import Partition
from tests.replication.conftest import NOW, batch, log, partition, state  # noqa: F401 - fixtures

T = TypeVar("T")
NOTHING = (-1, -1)


async def at_once(work: Callable[[], T]) -> T:
    return work()


def broker_of(partition: Partition) -> Any:  # noqa: F811
    replicas = SimpleNamespace(find=lambda topic, index: partition)
    return SimpleNamespace(replicas=replicas, in_thread=at_once, page_cache=SimpleNamespace(has_remote=False))


def asked(partition: Partition, timestamp: int, replica: int = -1) -> tuple[int, int]:  # noqa: F811
    request: Any = SimpleNamespace(version=11)
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topics = [ListOffsetsTopic(name="orders", partitions=[wanted])]
    message = ListOffsetsRequest(replica_id=replica, topics=topics)
    answer = asyncio.run(list_offsets(broker_of(partition), request, message)).topics[0].partitions[0]
    assert (answer.error_code, answer.timestamp) == (0, -1)
    return answer.offset, answer.leader_epoch


def deleted_to(partition: Partition, offset: int) -> int:  # noqa: F811
    topics = [DeleteRecordsTopic("orders", [DeleteRecordsPartition(0, offset)])]
    request: Any = SimpleNamespace(version=2)
    message = DeleteRecordsRequest(topics=topics)
    return delete_records(broker_of(partition), request, message).topics[0].partitions[0].low_watermark


@pytest.fixture
def tiered(partition: Partition, batch: Callable[[], memoryview]) -> Partition:  # noqa: F811
    """Ten records of epoch 0 in five segments, of which none is copied."""
    partition.log.update_config(replace(partition.log.config, remote_storage_enable=True))
    partition.apply(state(isr=(1,)))
    for _ in range(5):
        partition.append(batch(), NOW, 1)
        partition.log.roll(NOW)
    partition.log.commit_written()
    return partition


def test_where_nothing_is_remote_all_is_pending(tiered: Partition) -> None:
    assert asked(tiered, LATEST_TIERED) == NOTHING
    assert asked(tiered, EARLIEST_PENDING_UPLOAD) == (0, 0)
    assert asked(tiered, EARLIEST_LOCAL) == asked(tiered, EARLIEST) == (0, 0)


def test_tiers_of_a_log_are_described(tiered: Partition) -> None:
    tiered.log.note_tiered(6)
    tiered.log.offsets.advance_local_start(4)
    assert asked(tiered, EARLIEST) == (0, 0)
    assert asked(tiered, EARLIEST_LOCAL) == (4, 0)
    assert asked(tiered, LATEST_TIERED) == (5, 0)
    assert asked(tiered, EARLIEST_PENDING_UPLOAD) == (6, 0)


def test_where_all_is_remote_a_consumer_has_nothing_pending_and_a_follower_the_end(tiered: Partition) -> None:
    tiered.log.note_tiered(10)
    assert asked(tiered, LATEST_TIERED) == (9, 0)
    assert asked(tiered, EARLIEST_PENDING_UPLOAD) == NOTHING
    assert asked(tiered, EARLIEST_PENDING_UPLOAD, replica=2) == (10, 0)


def test_an_untiered_topic_has_no_tiers(tiered: Partition) -> None:
    tiered.log.update_config(replace(tiered.log.config, remote_storage_enable=False))
    assert asked(tiered, LATEST_TIERED) == asked(tiered, EARLIEST_PENDING_UPLOAD) == NOTHING


def test_records_are_deleted_in_the_remote_part_and_above_it(tiered: Partition) -> None:
    tiered.log.note_tiered(6)
    tiered.log.offsets.advance_local_start(4)
    assert deleted_to(tiered, 3) == 3
    assert (asked(tiered, EARLIEST), asked(tiered, EARLIEST_LOCAL)) == ((3, 0), (4, 0))
    assert deleted_to(tiered, -1) == 10
    assert asked(tiered, EARLIEST) == asked(tiered, EARLIEST_LOCAL) == (10, 0)
    assert asked(tiered, LATEST_TIERED) == (5, -1)  # its epoch was deleted with its record
