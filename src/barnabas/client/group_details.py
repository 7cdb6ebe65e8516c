"""Groups of any protocol that commits offsets: members, committed offsets, lag, offset reset."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from barnabas.client import groups
from barnabas.client.cluster import Client
from barnabas.client.consumer import Consumer
from barnabas.client.offsets import Start, end_offsets, list_offsets, resolve_start
from barnabas.client.opening import ConsumedRecord
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.coordinator_records import (
    GROUP_RECORDS,
    REBALANCE_REASON_HEADER,
    UnknownRecordTypeError,
    decode_key,
    decode_value,
    decode_versioned,
)
from barnabas.protocol.internal_topics import CONSUMER_OFFSETS, partition_for
from barnabas.protocol.messages.consumer import CONSUMER_PROTOCOL, ConsumerProtocolAssignment
from barnabas.protocol.messages.consumer import Member as ConsumerMember
from barnabas.protocol.messages.groups import DescribedGroupMember
from barnabas.protocol.messages.records.group import (
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
)
from barnabas.protocol.messages.records.streams_group import StreamsGroupMetadataKey
from barnabas.protocol.messages.streams import DescribedGroup as StreamsGroup
from barnabas.protocol.messages.streams import Member as StreamsMember
from barnabas.protocol.wire import ProtocolError

# -- Rebalance history, read from __consumer_offsets ---------------------------------------------------


class Rebalance(NamedTuple):
    timestamp: int
    generation: int | None
    """Or epoch; None where the group was deleted or changed its type."""
    members: int | None
    """None if the record does not contain it."""
    why: str


async def rebalance_history(client: Client, name: str, hours: float) -> list[Rebalance]:
    """The generations or epochs of a group, the oldest first."""
    topics = await client.all_topics()
    if CONSUMER_OFFSETS not in topics:
        return []
    tp = TopicPartition(CONSUMER_OFFSETS, partition_for(name, len(topics[CONSUMER_OFFSETS].partitions)))
    since = int((time.time() - hours * 3600) * 1000)
    first = (await list_offsets(client, {tp: since}))[tp].offset
    end = (await end_offsets(client, [tp]))[tp]
    found: list[Rebalance] = []
    if first < 0:
        return found
    async with Consumer(client, {tp: first}) as consumer:
        while consumer.position(tp) < end:
            for record in await consumer.poll():
                found += _rebalances(record, name)
    return found


def _rebalances(record: ConsumedRecord, name: str) -> Iterator[Rebalance]:
    """The rebalance that a record describes, if any."""
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
    reason = reasons[0] if reasons else "unknown"
    if isinstance(value, GroupMetadataValue):
        yield Rebalance(record.timestamp, value.generation, len(value.members), reason)
    else:
        yield Rebalance(record.timestamp, value.epoch, None, reason)


def _is_metadata_of(key: object, name: str) -> bool:
    """A classic group has one record for each generation, others have one for each epoch."""
    if isinstance(key, GroupMetadataKey):
        return key.group == name
    return isinstance(key, (ConsumerGroupMetadataKey, StreamsGroupMetadataKey)) and key.group_id == name


STREAMS_PROTOCOL = "streams"


class GroupMember(NamedTuple):
    member: str
    instance: str | None
    client: str
    host: str
    partitions: frozenset[TopicPartition]


class GroupOffset(NamedTuple):
    """One partition; `committed`, `lag` and the owner are None where there is none."""

    topic: str
    partition: int
    committed: int | None
    end: int
    lag: int | None
    metadata: str | None
    member: str | None
    client: str | None
    host: str | None


class GroupDetails(NamedTuple):
    group: str
    state: str
    type: str
    protocol: str
    assignor: str
    coordinator: int
    lag: int
    offsets: list[GroupOffset]
    members: list[GroupMember]


class OffsetReset(NamedTuple):
    topic: str
    partition: int
    before: int | None
    after: int


async def describe_group(client: Client, name: str) -> GroupDetails:
    found = await _find(client, name)
    owners = {tp: member for member in found.members for tp in member.partitions}
    commits = await groups.committed_offsets(client, name)
    ends = await end_offsets(client, {*commits, *owners})
    offsets = [_offset(tp, commits.get(tp), ends[tp], owners.get(tp)) for tp in sorted(ends)]
    return found._replace(offsets=offsets, lag=sum(row.lag or 0 for row in offsets))


async def reset_group(
    client: Client, name: str, start: Start, topics: list[str] | None, *, dry_run: bool
) -> list[OffsetReset]:
    """Set the committed offsets of an empty group to `start`, for these topics or all committed ones."""
    before = await groups.committed_offsets(client, name)
    partitions = await client.partitions(topics) if topics else sorted(before)
    after = await resolve_start(client, partitions, start)
    if after and not dry_run:
        await _commit(client, name, after)
    return [OffsetReset(*tp, before[tp].offset if tp in before else None, after[tp]) for tp in partitions]


async def _commit(client: Client, name: str, offsets: dict[TopicPartition, int]) -> None:
    try:
        await groups.commit_offsets(client, name, offsets)
    except KafkaError as error:
        if error.code is not ErrorCode.UNKNOWN_MEMBER_ID:
            raise
        raise KafkaError(
            ErrorCode.NON_EMPTY_GROUP,
            f"{name} has members, and only they may commit. Stop its consumers and wait until their "
            "session timeout is over, then try again.",
        ) from None


async def _find(client: Client, name: str) -> GroupDetails:
    """Describe the group without offsets: as a classic group first, then by the newer protocols."""
    try:
        coordinator, classic = await groups.describe_group(client, name)
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        for find in (_find_consumer_group, _find_streams_group):
            with suppress(KafkaError):
                return await find(client, name)
        raise
    consumes = classic.protocol_type == CONSUMER_PROTOCOL
    members = [
        GroupMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            frozenset(assigned_partitions(member) if consumes else ()),
        )
        for member in classic.members
    ]
    protocol, assignor = classic.protocol_type, classic.protocol_data
    return GroupDetails(name, classic.group_state, "classic", protocol, assignor, coordinator, 0, [], members)


async def _find_consumer_group(client: Client, name: str) -> GroupDetails:
    coordinator, group = await groups.describe_consumer_group(client, name)
    members = [_member(member, _partitions(member)) for member in group.members]
    state, assignor = group.group_state, group.assignor_name
    return GroupDetails(name, state, "consumer", CONSUMER_PROTOCOL, assignor, coordinator, 0, [], members)


async def _find_streams_group(client: Client, name: str) -> GroupDetails:
    """Streams members own tasks; list the input partitions of these tasks."""
    coordinator, group = await groups.describe_streams_group(client, name)
    inputs = topology_inputs(group)
    known = await client.all_topics()

    def partitions(member: StreamsMember) -> Iterator[TopicPartition]:
        for ids in member.assignment.active_tasks:
            for topic in inputs.get(ids.subtopology_id, []):
                indexes = known[topic].partitions if topic in known else ()
                yield from (TopicPartition(topic, index) for index in ids.partitions if index in indexes)

    members = [_member(member, partitions(member)) for member in group.members]
    kind = STREAMS_PROTOCOL
    return GroupDetails(name, group.group_state, kind, kind, "sticky", coordinator, 0, [], members)


def topology_inputs(group: StreamsGroup) -> dict[str, list[str]]:
    """The topics that each subtopology reads."""
    subtopologies = (group.topology.subtopologies or []) if group.topology is not None else []
    return {
        one.subtopology_id: [*one.source_topics, *(topic.name for topic in one.repartition_source_topics)]
        for one in subtopologies
    }


def _member(member: ConsumerMember | StreamsMember, partitions: Iterable[TopicPartition]) -> GroupMember:
    client, host = member.client_id, member.client_host
    return GroupMember(member.member_id, member.instance_id, client, host, frozenset(partitions))


def _partitions(member: ConsumerMember) -> Iterator[TopicPartition]:
    for topic in member.assignment.topic_partitions:
        yield from (TopicPartition(topic.topic_name, index) for index in topic.partitions)


def assigned_partitions(member: DescribedGroupMember) -> Iterator[TopicPartition]:
    """Assigned partitions of a classic consumer."""
    try:
        assignment = decode_versioned(ConsumerProtocolAssignment, member.member_assignment)
    except (ProtocolError, ValueError):  # nothing assigned yet, or a custom assignment format
        return
    for topic in assignment.assigned_partitions:
        yield from (TopicPartition(topic.topic, index) for index in topic.partitions)


def _offset(
    tp: TopicPartition, commit: groups.CommittedOffset | None, end: int, owner: GroupMember | None
) -> GroupOffset:
    return GroupOffset(
        *tp,
        committed=commit.offset if commit else None,
        end=end,
        lag=max(end - commit.offset, 0) if commit else None,
        metadata=commit.metadata if commit else None,
        member=owner.member if owner else None,
        client=owner.client if owner else None,
        host=owner.host if owner else None,
    )
