"""A share group as ShareGroupDescribe shows it."""

from __future__ import annotations

from barnabas.groups.share.group import ShareGroup
from barnabas.groups.share.member import ShareMember
from barnabas.groups.topics import Topics
from barnabas.protocol.messages.share import (
    DescribedGroup,
    Member,
    ShareGroupDescribeAssignment,
    ShareGroupDescribeTopicPartitions,
)

ASSIGNOR = "simple"


def described(group: ShareGroup, topics: Topics) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_member(member, topics) for member in group.members.values()],
    )


def _member(member: ShareMember, topics: Topics) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client.client_id,
        client_host=member.client.host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        assignment=ShareGroupDescribeAssignment(
            topic_partitions=[
                ShareGroupDescribeTopicPartitions(topic_id=topic, topic_name=name, partitions=sorted(indexes))
                for topic, indexes in member.assigned.items()
                if (name := topics.name_of(topic)) is not None
            ]
        ),
    )
