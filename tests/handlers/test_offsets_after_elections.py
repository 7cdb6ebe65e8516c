"""ListOffsets of a new leader whose high watermark is not known yet (KIP-207)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.handlers.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, list_offsets
from barnabas.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.replication.partition import ALL_REPLICAS, Partition
from tests.replication.conftest import NOW, batch, log, partition, state  # noqa: F401 - fixtures

T = TypeVar("T")


async def at_once(work: Callable[[], T]) -> T:
    return work()


def asked(partition: Partition, timestamp: int, version: int = 7) -> ListOffsetsPartitionResponse:  # noqa: F811
    replicas = SimpleNamespace(find=lambda topic, index: partition)
    page_cache = SimpleNamespace(has_remote=False)
    broker: Any = SimpleNamespace(replicas=replicas, in_thread=at_once, page_cache=page_cache)
    request: Any = SimpleNamespace(version=version)
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    message = ListOffsetsRequest(topics=[ListOffsetsTopic(name="orders", partitions=[wanted])])
    return asyncio.run(list_offsets(broker, request, message)).topics[0].partitions[0]


@pytest.fixture
def elected(partition: Partition, batch: Callable[[], memoryview]) -> Partition:  # noqa: F811
    """It has two records and does not know that they are committed: another leader knew."""
    partition.apply(state(isr=(1, 2)))
    partition.append(batch(), NOW, ALL_REPLICAS)
    partition.apply(state(isr=(1, 2), epoch=1, version=1))
    return partition


@pytest.mark.parametrize("timestamp", [LATEST, MAX_TIMESTAMP, NOW, NOW + 1])
def test_offsets_possibly_served_by_an_earlier_leader_stay_valid(elected: Partition, timestamp: int) -> None:
    assert asked(elected, timestamp).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    elected.follower_reached(2, 2, 20)
    answer = asked(elected, timestamp)
    assert answer.error_code == ErrorCode.NONE
    assert answer.offset == {LATEST: 2, MAX_TIMESTAMP: 0, NOW: 0}.get(timestamp, -1)


def test_older_clients_hear_of_it_in_their_own_words(elected: Partition) -> None:
    assert asked(elected, NOW, version=4).error_code == ErrorCode.LEADER_NOT_AVAILABLE


def test_records_below_the_high_watermark_are_returned_immediately(
    elected: Partition,
    batch: Callable[[], memoryview],  # noqa: F811
) -> None:
    elected.follower_reached(2, 2, 20)
    elected.append(batch(), NOW, ALL_REPLICAS)
    elected.apply(state(isr=(1, 2), epoch=2, version=2))
    assert not elected.end_is_known
    assert asked(elected, NOW).offset == 0
    assert asked(elected, EARLIEST).offset == 0
