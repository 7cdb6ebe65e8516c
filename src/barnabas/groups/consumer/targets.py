"""Target assignment of a consumer group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple

from barnabas.common.cooperative import Steps, pieces
from barnabas.common.types import Uuid
from barnabas.groups.assigning import LARGE
from barnabas.groups.assignors import CONSUMER_ASSIGNOR_STEPS, MemberSpec
from barnabas.groups.consumer.group import ConsumerGroup
from barnabas.groups.consumer.member import ConsumerMember
from barnabas.groups.consumer.patterns import NOT_RESOLVED, Resolved
from barnabas.groups.manager import ShardContext
from barnabas.groups.modern import Assignment
from barnabas.groups.topics import ImageTopics

_Subscription = tuple[frozenset[str], str]
"""Topic names, and a pattern."""


class GroupView(NamedTuple):
    """Snapshot of a group."""

    members: Mapping[str, ConsumerMember]
    targets: Mapping[str, Assignment]
    static_members: Mapping[str, str]
    resolved: Mapping[str, Resolved]

    def topics_of(self, member: ConsumerMember) -> Set[str]:
        by_pattern = self.resolved.get(member.pattern, NOT_RESOLVED).topics
        return member.subscribed_topic_names | by_pattern if by_pattern else member.subscribed_topic_names

    def target(self, member: ConsumerMember) -> Assignment:
        """Target of the member, or of the static member that it replaces."""
        holder = self.static_members.get(member.instance_id or "", member.member_id)
        return self.targets.get(holder, {})


def view_of(group: ConsumerGroup) -> GroupView:
    """Copy a group for a computation of many slices."""
    return GroupView(
        dict(group.members), dict(group.targets), dict(group.static_members), dict(group.resolved)
    )


def is_large(
    context: ShardContext, group: ConsumerGroup, topics: Iterable[str], joins: ConsumerMember
) -> bool:
    """True if computing the target would take too long for a heartbeat. `topics` are those of all members."""
    work = len(group.members) + group.subscriptions.names + len(joins.subscribed_topic_names)
    work += sum(len(resolved.topics) for resolved in group.resolved.values())
    if work > LARGE:
        return True
    found = (context.topics.find(name) for name in topics)
    return work + sum(topic.partitions for topic in found if topic is not None) > LARGE


def compute(context: ShardContext, group: GroupView) -> Steps[dict[str, Assignment]]:
    name = preferred_assignor(group.members.values(), context.settings.assignors)
    yield
    counts: dict[Uuid, int] = {}
    topics = yield from _topics_of_all(group, context.topics, counts)
    specs: dict[str, MemberSpec] = {}
    for piece in pieces(group.members.values()):
        for member in piece:
            ids = topics[member.subscribed_topic_names, member.pattern]
            specs[member.member_id] = MemberSpec(ids, group.target(member), member.instance_id)
        yield
    targets = yield from CONSUMER_ASSIGNOR_STEPS[name](specs, counts)
    topics.clear()
    while specs:  # freeing all of them at once would take long
        specs.popitem()
        yield
    return targets


def _topics_of_all(
    group: GroupView, topics: ImageTopics, counts: dict[Uuid, int]
) -> Steps[dict[_Subscription, Set[Uuid]]]:
    """Existing topics of each subscription with their partition counts, looked up in one step because a topic may be
    deleted before the next one. Equal sets of topics share one object."""
    found: dict[_Subscription, Set[Uuid]] = {}
    shared: dict[Set[Uuid], Set[Uuid]] = {}
    for member in group.members.values():
        subscription = (member.subscribed_topic_names, member.pattern)
        if subscription in found:
            continue
        existing: set[Uuid] = set()
        for piece in pieces(group.topics_of(member)):
            for topic in filter(None, map(topics.find, piece)):
                counts.setdefault(topic.topic_id, topic.partitions)
                existing.add(topic.topic_id)
            yield
        ids = frozenset(existing)
        found[subscription] = shared.setdefault(ids, ids)
    return found


def preferred_assignor(members: Iterable[ConsumerMember], assignors: list[str]) -> str:
    """The assignor that most members request; in a tie, or without requests, the broker's first."""
    votes = Counter(member.assignor for member in members if member.assignor in assignors)
    return max(assignors, key=lambda name: votes[name])
