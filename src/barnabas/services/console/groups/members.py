"""Members of a group and their assignments, for groups of all four types."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set

import msgspec

from barnabas.client import Client, ClientError, groups
from barnabas.client.group_details import assigned_partitions, topology_inputs
from barnabas.common.errors import KafkaError
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.consumer import CONSUMER_PROTOCOL
from barnabas.protocol.messages.consumer import Member as ConsumerMember
from barnabas.protocol.messages.share import Member as ShareMember
from barnabas.protocol.messages.streams import Member as StreamsMember
from barnabas.protocol.messages.streams import TaskIds
from barnabas.services.console.sampling.snapshot import CONSUMER, SHARE, STREAMS

TIMEOUT = 3.0
"""Seconds; after that the page is shown without members."""


class AssignedTopic(msgspec.Struct):
    topic: str
    partitions: list[int]


class MemberRow(msgspec.Struct):
    id: str
    instance: str
    """group.instance.id of a static member, else empty."""
    client: str
    host: str
    epoch: int | None
    assigned: list[AssignedTopic]
    tasks: list[str] = []
    """Kafka Streams: active, standby and warm-up tasks."""

    @property
    def partitions(self) -> Iterator[tuple[str, int]]:
        for each in self.assigned:
            yield from ((each.topic, partition) for partition in each.partitions)


class GroupMembers(msgspec.Struct):
    state: str = ""
    assignor: str = ""
    epoch: int | None = None
    members: list[MemberRow] = []
    error: str = ""
    """Reason why members are unknown, as a sentence."""


async def describe_members(client: Client, name: str, kind: str) -> GroupMembers:
    """Describe members; a failure is reported in `error`, so that the rest of the group page can be shown."""
    describe = {CONSUMER: _consumer, SHARE: _share, STREAMS: _streams}.get(kind, _classic)
    try:
        async with asyncio.timeout(TIMEOUT):
            return await describe(client, name)
    except (ClientError, KafkaError) as error:
        return GroupMembers(error=f"Its members are not known: {error}.")
    except TimeoutError:
        return GroupMembers(error=f"Its coordinator did not describe the members within {TIMEOUT:g} seconds.")


def within(members: GroupMembers, topics: Set[str]) -> GroupMembers:
    """Restrict assignments to these topics."""
    seen = [
        msgspec.structs.replace(one, assigned=[each for each in one.assigned if each.topic in topics])
        for one in members.members
    ]
    return msgspec.structs.replace(members, members=seen)


async def _classic(client: Client, name: str) -> GroupMembers:
    _, found = await groups.describe_group(client, name)
    consumes = found.protocol_type == CONSUMER_PROTOCOL
    members = [
        MemberRow(
            *(one.member_id, one.group_instance_id or "", one.client_id, one.client_host, None),
            assigned=_by_topic(assigned_partitions(one) if consumes else ()),
        )
        for one in found.members
    ]
    return GroupMembers(found.group_state, found.protocol_data, None, members)


async def _consumer(client: Client, name: str) -> GroupMembers:
    _, found = await groups.describe_consumer_group(client, name)
    members = [_member(one, one.instance_id, _named(one)) for one in found.members]
    return GroupMembers(found.group_state, found.assignor_name, found.group_epoch, members)


async def _share(client: Client, name: str) -> GroupMembers:
    _, found = await groups.describe_share_group(client, name)
    members = [_member(one, None, _named(one)) for one in found.members]
    return GroupMembers(found.group_state, found.assignor_name, found.group_epoch, members)


async def _streams(client: Client, name: str) -> GroupMembers:
    _, found = await groups.describe_streams_group(client, name)
    inputs = topology_inputs(found)
    members = []
    for one in found.members:
        active = one.assignment.active_tasks
        partitions = (
            TopicPartition(topic, index)
            for ids in active
            for topic in inputs.get(ids.subtopology_id, [])
            for index in ids.partitions
        )
        member = _member(one, one.instance_id, _by_topic(partitions))
        kept = (("standby", one.assignment.standby_tasks), ("warm-up", one.assignment.warmup_tasks))
        member.tasks = [
            *_tasks("active", active),
            *(text for word, ids in kept for text in _tasks(word, ids)),
        ]
        members.append(member)
    return GroupMembers(found.group_state, found.assignor_name or "", found.group_epoch, members)


def _tasks(word: str, tasks: Iterable[TaskIds]) -> list[str]:
    return [
        f"{word} {ids.subtopology_id}: {', '.join(map(str, sorted(ids.partitions)))}"
        for ids in tasks
        if ids.partitions
    ]


def _member(
    member: ConsumerMember | ShareMember | StreamsMember, instance: str | None, assigned: list[AssignedTopic]
) -> MemberRow:
    return MemberRow(
        *(member.member_id, instance or "", member.client_id, member.client_host, member.member_epoch),
        assigned=assigned,
    )


def _named(member: ConsumerMember | ShareMember) -> list[AssignedTopic]:
    return _by_topic(
        TopicPartition(topic.topic_name, index)
        for topic in member.assignment.topic_partitions
        for index in topic.partitions
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> list[AssignedTopic]:
    found: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        found[topic].append(partition)
    return [AssignedTopic(topic, sorted(found[topic])) for topic in sorted(found)]
