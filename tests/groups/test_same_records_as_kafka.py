"""Records that the same requests leave in `__consumer_offsets`, compared with Apache Kafka byte by byte.

Compared is the last record of each key, as compaction would leave it: Kafka writes an empty generation when a group
is first heard of, we write it down when there is something to tell.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.cluster import Client
from barnabas.client.consumer import Consumer
from barnabas.client.offsets import beginning_offsets, end_offsets
from barnabas.client.opening import ConsumedRecord
from barnabas.common.types import TopicPartition
from barnabas.protocol.coordinator_records import GROUP_RECORDS, decode_key, decode_value
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS
from barnabas.protocol.messages.groups import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.offsets import OffsetCommitRequest
from barnabas.testing import EmbeddedBroker
from tests.groups.test_same_answers_as_kafka import SETTINGS, commits, topic_ids
from tests.support.groups.conversations import Talk, join_request
from tests.support.kafka.broker import ApacheKafka

pytestmark = pytest.mark.java

RANDOM = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


async def everything_that_writes(talk: Talk) -> None:
    await talk.begin("simple", "stable", "static", "empty", "deleted")
    ids = await topic_ids(talk, "orders")
    await talk.ask(OffsetCommitRequest("simple", topics=[commits("orders", (0, 5))]), 8)
    await talk.ask(OffsetCommitRequest("simple", topics=[commits("orders", (1, 6), metadata=None)]), 8)
    keep = OffsetCommitRequest("simple", retention_time_ms=10**9, topics=[commits("orders", (2, 7))])
    await talk.ask(keep, 4)
    by_id = commits("bills", (0, 8))
    by_id.topic_id = ids["orders"]
    await talk.ask(OffsetCommitRequest("simple", topics=[by_id]), 10)
    joined = await talk.settle("stable")
    commit = commits("bills", (1, 9))
    request = OffsetCommitRequest("stable", joined.generation_id, joined.member_id, topics=[commit])
    await talk.ask(request, 8)
    static = await talk.ask(join_request("static", instance="one", protocols={"a": b"1", "b": b"2"}), 9)
    await talk.sync("static", static, {static.member_id: b"mine"})
    await talk.ask(join_request("static", instance="one", protocols={"a": b"3", "b": b"4"}), 9)
    removed = await talk.settle("empty")
    await talk.ask(LeaveGroupRequest("empty", members=[MemberIdentity(removed.member_id)]), 5)


async def records_after(address: str) -> dict[str, Any]:
    """Last value of each key with its version, without random values and times."""
    talk = Talk(address)
    await everything_that_writes(talk)
    records = await records_of_groups(address)
    talk.close()
    return {
        repr(decode_key(GROUP_RECORDS, record.key)): comparable(record.key, record.value)
        for record in records
    }


async def records_of_groups(address: str) -> list[ConsumedRecord]:
    """Everything in `__consumer_offsets`."""
    async with Client(address) as client:
        topic = (await client.topics([CONSUMER_OFFSETS]))[CONSUMER_OFFSETS]
        partitions = [TopicPartition(CONSUMER_OFFSETS, index) for index in topic.partitions]
        ends = await end_offsets(client, partitions)
        starts = {
            tp: offset
            for tp, offset in (await beginning_offsets(client, partitions)).items()
            if offset < ends[tp]
        }
        found: list[ConsumedRecord] = []
        async with Consumer(client, starts) as consumer:
            while any(consumer.position(tp) < ends[tp] for tp in starts):
                found += await consumer.poll()
    return found


def comparable(key: Any, value: bytes | None) -> Any:
    if value is None:
        return None
    decoded = decode_value(GROUP_RECORDS, decode_key(GROUP_RECORDS, key), value)
    for field in ("commit_timestamp", "current_state_timestamp", "expire_timestamp"):
        if getattr(decoded, field, -1) >= 0:
            value = value.replace(getattr(decoded, field).to_bytes(8, "big"), b"<time>")
    if topic_id := getattr(decoded, "topic_id", b""):
        value = value.replace(topic_id, b"<topic>")
    return RANDOM.sub(b"<random>", value)


def test_the_records_are_the_same_byte_by_byte(tmp_path: Path) -> None:
    with ApacheKafka(tmp_path / "kafka", heap="256m", settings=SETTINGS) as kafka:
        expected = asyncio.run(records_after(kafka.bootstrap_servers))
    with EmbeddedBroker(settings=SETTINGS) as broker:
        ours = asyncio.run(records_after(broker.bootstrap_servers))
    assert ours == expected
    assert len(ours) == 7
