"""What `barnabas groups` finds out about a group, from several requests put together."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import typer

from barnabas.client import groups
from barnabas.client.cluster import Client
from barnabas.client.consumer import Consumer
from barnabas.client.offsets import end_offsets, list_offsets
from barnabas.client.opening import ConsumedRecord
from barnabas.client.positions import parse_start, resolve_start
from barnabas.cluster.names import CONSUMER_OFFSETS
from barnabas.coordination.keys import partition_for
from barnabas.errors import ErrorCode, KafkaError
from barnabas.groups.records import REASON_HEADER
from barnabas.groups.subscriptions import CONSUMER_PROTOCOL
from barnabas.protocol.coordinator_records import (
    GROUP_RECORDS,
    UnknownRecordTypeError,
    decode_key,
    decode_value,
    decode_versioned,
)
from barnabas.protocol.messages.consumer import ConsumerProtocolAssignment
from barnabas.protocol.messages.group_records import (
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
)
from barnabas.protocol.messages.groups import DescribedGroupMember
from barnabas.protocol.messages.streams_group_records import StreamsGroupMetadataKey
from barnabas.protocol.wire import ProtocolError
from barnabas.types import TopicPartition

STREAMS_PROTOCOL = "streams"


class _Member(NamedTuple):
    member: str
    instance: str | None
    client: str
    host: str
    partitions: frozenset[TopicPartition]


class _Group(NamedTuple):
    """A group of any protocol whose members commit offsets."""

    coordinator: int
    state: str
    type: str
    protocol: str
    assignor: str
    members: list[_Member]


Owners = dict[TopicPartition, _Member]


# -- describe --------------------------------------------------------------------------------------------


async def describe_group(client: Client, name: str) -> dict[str, Any]:
    group = await _find(client, name)
    owners = {place: member for member in group.members for place in member.partitions}
    commits = await groups.committed_offsets(client, name)
    ends = await end_offsets(client, {*commits, *owners})
    offsets = [_offset_row(place, commits.get(place), ends[place], owners) for place in sorted(ends)]
    return {
        "group": name,
        "state": group.state,
        "type": group.type,
        "protocol": group.protocol,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "lag": sum(row["lag"] or 0 for row in offsets),
        "offsets": offsets,
        "members": [_member_row(member) for member in group.members],
    }


async def _find(client: Client, name: str) -> _Group:
    """Every broker knows classic groups; what is none may be a group of a newer protocol."""
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
        _Member(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            frozenset(_assigned(member) if consumes else ()),
        )
        for member in classic.members
    ]
    return _Group(
        coordinator, classic.group_state, "classic", classic.protocol_type, classic.protocol_data, members
    )


async def _find_consumer_group(client: Client, name: str) -> _Group:
    coordinator, group = await groups.describe_consumer_group(client, name)
    members = [
        _Member(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            frozenset(
                TopicPartition(topic.topic_name, index)
                for topic in member.assignment.topic_partitions
                for index in topic.partitions
            ),
        )
        for member in group.members
    ]
    return _Group(coordinator, group.group_state, "consumer", CONSUMER_PROTOCOL, group.assignor_name, members)


async def _find_streams_group(client: Client, name: str) -> _Group:
    """Members have tasks; shown are the partitions that these read."""
    coordinator, group = await groups.describe_streams_group(client, name)
    subtopologies = (group.topology.subtopologies or []) if group.topology is not None else []
    inputs = {
        one.subtopology_id: [*one.source_topics, *(topic.name for topic in one.repartition_source_topics)]
        for one in subtopologies
    }
    known = await client.all_topics()
    members = [
        _Member(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            frozenset(
                TopicPartition(topic, index)
                for ids in member.assignment.active_tasks
                for topic in inputs.get(ids.subtopology_id, [])
                for index in ids.partitions
                if topic in known and index in known[topic].partitions
            ),
        )
        for member in group.members
    ]
    return _Group(coordinator, group.group_state, STREAMS_PROTOCOL, STREAMS_PROTOCOL, "sticky", members)


def _assigned(member: DescribedGroupMember) -> Iterator[TopicPartition]:
    try:
        assignment = decode_versioned(ConsumerProtocolAssignment, member.member_assignment)
    except (ProtocolError, ValueError):  # nothing assigned yet, or an assignor with a format of its own
        return
    for topic in assignment.assigned_partitions:
        for index in topic.partitions:
            yield TopicPartition(topic.topic, index)


def _offset_row(
    place: TopicPartition, commit: groups.Commit | None, end: int, owners: Owners
) -> dict[str, Any]:
    owner = owners.get(place)
    return {
        "topic": place.topic,
        "partition": place.partition,
        "committed": commit.offset if commit else None,
        "end": end,
        "lag": max(end - commit.offset, 0) if commit else None,
        "metadata": commit.metadata if commit else None,
        "member": owner.member if owner else None,
        "client": owner.client if owner else None,
        "host": owner.host if owner else None,
    }


def _member_row(member: _Member) -> dict[str, Any]:
    return {
        "member": member.member,
        "instance": member.instance,
        "client": member.client,
        "host": member.host,
        "partitions": [str(place) for place in sorted(member.partitions)],
    }


# -- reset -----------------------------------------------------------------------------------------------


async def reset_group(
    client: Client, name: str, to: str, topics: list[str] | None, *, dry_run: bool
) -> list[dict[str, Any]]:
    try:
        start = parse_start(to)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--to") from None
    before = await groups.committed_offsets(client, name)
    places = await _places(client, topics) if topics else sorted(before)
    after = await resolve_start(client, places, start)
    if after and not dry_run:
        await _commit(client, name, after)
    return [
        {
            "topic": place.topic,
            "partition": place.partition,
            "before": before[place].offset if place in before else None,
            "after": after[place],
        }
        for place in places
    ]


async def _places(client: Client, topics: list[str]) -> list[TopicPartition]:
    known = await client.topics(topics)
    return [TopicPartition(name, index) for name in topics for index in sorted(known[name].partitions)]


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


# -- history ---------------------------------------------------------------------------------------------


async def rebalance_history(client: Client, name: str, hours: float) -> list[dict[str, Any]]:
    """The generations or epochs of a group, the oldest first, as the coordinator has written them down."""
    topics = await client.all_topics()
    if CONSUMER_OFFSETS not in topics:
        return []
    place = TopicPartition(CONSUMER_OFFSETS, partition_for(name, len(topics[CONSUMER_OFFSETS].partitions)))
    now_ms = int(datetime.datetime.now().timestamp() * 1000)
    first = (await list_offsets(client, {place: now_ms - int(hours * 3_600_000)}))[place].offset
    end = (await end_offsets(client, [place]))[place]
    rows: list[dict[str, Any]] = []
    if first < 0:
        return rows
    async with Consumer(client, {place: first}) as consumer:
        while consumer.position(place) < end:
            for record in await consumer.poll():
                rows += _generation_rows(record, name)
    return rows


def _generation_rows(record: ConsumedRecord, name: str) -> Iterator[dict[str, Any]]:
    try:
        key = decode_key(GROUP_RECORDS, record.key)
    except (UnknownRecordTypeError, ProtocolError):
        return
    if not _tells_why(key, name):
        return
    moment = datetime.datetime.fromtimestamp(record.timestamp / 1000).astimezone()
    row: dict[str, Any] = {"time": moment.isoformat(timespec="milliseconds")}
    if record.value is None:
        yield {**row, "generation": None, "members": 0, "why": "the group was deleted or changed its type"}
        return
    value = decode_value(GROUP_RECORDS, key, record.value)
    reasons = [(text or b"").decode() for header, text in record.headers if header == REASON_HEADER]
    is_classic = isinstance(value, GroupMetadataValue)
    yield {
        **row,
        "generation": value.generation if is_classic else value.epoch,
        "members": len(value.members) if is_classic else None,
        "why": reasons[0] if reasons else "unknown",
    }


def _tells_why(key: object, name: str) -> bool:
    """A classic group has one record for each generation, others have one for each epoch."""
    if isinstance(key, GroupMetadataKey):
        return key.group == name
    return isinstance(key, (ConsumerGroupMetadataKey, StreamsGroupMetadataKey)) and key.group_id == name
