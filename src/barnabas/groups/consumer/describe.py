"""ConsumerGroupDescribe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from barnabas.common.types import Uuid
from barnabas.groups.consumer.group import ConsumerGroup
from barnabas.groups.consumer.member import ConsumerMember
from barnabas.groups.consumer.targets import preferred_assignor
from barnabas.groups.topics import ImageTopics
from barnabas.protocol.messages.consumer import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribeTopicPartitions,
    DescribedGroup,
    Member,
)

CLASSIC_PROTOCOL = 0
CONSUMER_PROTOCOL = 1


def described(group: ConsumerGroup, topics: ImageTopics, assignors: Sequence[str]) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group.members.values(), list(assignors)),
        members=[_member(group, member, topics) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, topics: ImageTopics) -> Member:
    """Partitions to revoke are shown with the owned ones."""
    has: dict[Uuid, set[int]] = {}
    for owned in (member.owned, member.revoking):
        for topic, indexes in owned.items():
            has.setdefault(topic, set()).update(indexes)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client.client_id,
        client_host=member.client.host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.pattern,
        assignment=_assignment(has.items(), topics),
        target_assignment=_assignment(group.targets.get(member.member_id, {}).items(), topics),
        member_type=CONSUMER_PROTOCOL if member.classic is None else CLASSIC_PROTOCOL,
    )


def _assignment(
    partitions: Iterable[tuple[Uuid, Iterable[int]]], topics: ImageTopics
) -> ConsumerGroupDescribeAssignment:
    """Deleted topics are omitted."""
    named = ((topic, topics.name_of(topic), sorted(indexes)) for topic, indexes in partitions)
    return ConsumerGroupDescribeAssignment(
        topic_partitions=[
            ConsumerGroupDescribeTopicPartitions(topic_id=topic, topic_name=name, partitions=indexes)
            for topic, name, indexes in named
            if name is not None
        ]
    )
