"""The requests behind `barnabas cluster`, with equal responses from Barnabas and Apache Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from barnabas.client import admin
from barnabas.client.cluster import Client
from barnabas.client.placement import reassignments
from barnabas.client.placement.layout import describe_layout
from barnabas.client.placement.planner import ReplicaMove
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition


def test_a_cluster_is_laid_out_and_moves_to_where_things_are_end_at_once(
    bootstrap: str, new_name: Callable[[], str]
) -> None:
    async def work() -> None:
        async with Client(bootstrap) as client:
            name = new_name()
            await admin.create_topic(client, name, partitions=2, replication_factor=1)
            await client.topics([name])
            tp = TopicPartition(name, 1)
            layout = await describe_layout(client)
            async with asyncio.timeout(10):  # Apache Kafka reports a new topic a moment after its response
                while tp not in layout.assignment or not layout.sizes:
                    layout = await describe_layout(client)
            (broker,) = layout.brokers
            assert layout.assignment[tp] == (broker,)
            assert (dict(layout.fenced), dict(layout.moving)) == ({}, {})
            assert layout.sizes.keys() == {broker}
            assert layout.partition_sizes.get(tp, 0) == 0
            await reassignments.carry_out(client, [ReplicaMove(tp, (broker,), (broker,))], at_once=1)
            assert await reassignments.elect_preferred(client, [tp]) == {}

    asyncio.run(work())


def test_impossible_moves_and_cancellations_are_rejected_with_the_partition(
    bootstrap: str, new_name: Callable[[], str]
) -> None:
    async def work() -> None:
        async with Client(bootstrap) as client:
            tp = TopicPartition(new_name(), 0)
            await admin.create_topic(client, tp.topic, partitions=1, replication_factor=1)
            with pytest.raises(KafkaError, match=str(tp)) as refused:
                await reassignments.alter(client, {tp: [77]})
            assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
            with pytest.raises(KafkaError, match=str(tp)) as refused:
                await reassignments.alter(client, {tp: None})
            assert refused.value.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS

    asyncio.run(work())
