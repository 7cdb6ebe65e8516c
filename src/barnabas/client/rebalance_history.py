"""When a group was rebalanced, and why: read from the records of its coordinator."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from barnabas.client.cluster import Client
from barnabas.client.consumer import Consumer
from barnabas.client.offsets import end_offsets, list_offsets
from barnabas.client.opening import ConsumedRecord
from barnabas.protocol.coordinator_records import (
    GROUP_RECORDS,
    REBALANCE_REASON_HEADER,
    UnknownRecordTypeError,
    decode_key,
    decode_value,
)
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS, partition_for
from barnabas.protocol.messages.records.group import (
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
)
from barnabas.protocol.messages.records.streams_group import StreamsGroupMetadataKey
from barnabas.protocol.wire import ProtocolError
from barnabas.common.types import TopicPartition


class Rebalance(NamedTuple):
    timestamp: int
    generation: int | None
    """Or epoch; None where the group was deleted or changed its type."""
    members: int | None
    """None where the record does not say."""
    why: str


async def rebalance_history(client: Client, name: str, hours: float) -> list[Rebalance]:
    """The generations or epochs of a group, the oldest first."""
    topics = await client.all_topics()
    if CONSUMER_OFFSETS not in topics:
        return []
    place = TopicPartition(CONSUMER_OFFSETS, partition_for(name, len(topics[CONSUMER_OFFSETS].partitions)))
    since = int((time.time() - hours * 3600) * 1000)
    first = (await list_offsets(client, {place: since}))[place].offset
    end = (await end_offsets(client, [place]))[place]
    found: list[Rebalance] = []
    if first < 0:
        return found
    async with Consumer(client, {place: first}) as consumer:
        while consumer.position(place) < end:
            for record in await consumer.poll():
                found += _rebalances(record, name)
    return found


def _rebalances(record: ConsumedRecord, name: str) -> Iterator[Rebalance]:
    """None or one."""
    try:
        key = decode_key(GROUP_RECORDS, record.key)
    except (UnknownRecordTypeError, ProtocolError):
        return
    if not _is_metadata_of(key, name):
        return
    if record.value is None:
        yield Rebalance(record.timestamp, None, 0, "the group was deleted or changed its type")
        return
    value = decode_value(GROUP_RECORDS, key, record.value)
    reasons = [(text or b"").decode() for header, text in record.headers if header == REBALANCE_REASON_HEADER]
    why = reasons[0] if reasons else "unknown"
    if isinstance(value, GroupMetadataValue):
        yield Rebalance(record.timestamp, value.generation, len(value.members), why)
    else:
        yield Rebalance(record.timestamp, value.epoch, None, why)


def _is_metadata_of(key: object, name: str) -> bool:
    """A classic group has one record for each generation, others have one for each epoch."""
    if isinstance(key, GroupMetadataKey):
        return key.group == name
    return isinstance(key, (ConsumerGroupMetadataKey, StreamsGroupMetadataKey)) and key.group_id == name
