"""Assignors of classic groups, computed by the group's leader: Kafka's range, round robin and cooperative sticky."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.common.types import TopicPartition

Subscriptions = Mapping[str, Sequence[str]]
"""The topics of each member."""

Counts = Mapping[str, int]
"""The partitions of each topic."""

Assignment = dict[str, list[TopicPartition]]


def assign_ranges(subscriptions: Subscriptions, counts: Counts) -> Assignment:
    """Assign contiguous partitions of each topic; the first members get the remainder."""
    found: Assignment = {member: [] for member in subscriptions}
    for topic in sorted(counts):
        members = sorted(member for member, topics in subscriptions.items() if topic in topics)
        if not members:
            continue
        each, over = divmod(counts[topic], len(members))
        first = 0
        for position, member in enumerate(members):
            until = first + each + (position < over)
            found[member] += [TopicPartition(topic, index) for index in range(first, until)]
            first = until
    return found


def assign_in_turn(subscriptions: Subscriptions, counts: Counts) -> Assignment:
    """Assign each partition to the next member subscribed to its topic."""
    found: Assignment = {member: [] for member in subscriptions}
    members = sorted(subscriptions)
    turn = 0
    for tp in (TopicPartition(topic, index) for topic in sorted(counts) for index in range(counts[topic])):
        for _ in members:
            member = members[turn % len(members)]
            turn += 1
            if tp.topic in subscriptions[member]:
                found[member].append(tp)
                break
    return found


def assign_sticky(subscriptions: Subscriptions, counts: Counts, owned: Assignment) -> Assignment:
    """Move as few partitions as a balanced assignment allows. What moves is assigned after its owner has revoked it."""
    found = _kept(subscriptions, counts, owned)
    assigned = {tp for partitions in found.values() for tp in partitions}
    for topic in sorted(counts):
        for tp in (TopicPartition(topic, index) for index in range(counts[topic])):
            candidates = [member for member, topics in subscriptions.items() if topic in topics]
            if tp not in assigned and candidates:
                found[min(candidates, key=lambda member: (len(found[member]), member))].append(tp)
    while (move := _next_move(found, subscriptions)) is not None:
        tp, giver, taker = move
        found[giver].remove(tp)
        found[taker].append(tp)
    owners = {tp: member for member, partitions in owned.items() for tp in partitions}
    return {
        member: sorted(tp for tp in partitions if owners.get(tp, member) == member)
        for member, partitions in found.items()
    }


def _kept(subscriptions: Subscriptions, counts: Counts, owned: Assignment) -> Assignment:
    return {
        member: [
            tp
            for tp in sorted(owned.get(member, ()))
            if tp.topic in topics and tp.partition < counts.get(tp.topic, 0)
        ]
        for member, topics in subscriptions.items()
    }


def _next_move(found: Assignment, subscriptions: Subscriptions) -> tuple[TopicPartition, str, str] | None:
    """A partition from a member with more to one with at least two fewer."""
    by_load = sorted(found, key=lambda member: (len(found[member]), member))
    for taker in by_load:
        for giver in reversed(by_load):
            if len(found[giver]) - len(found[taker]) < 2:
                break
            for tp in reversed(found[giver]):
                if tp.topic in subscriptions[taker]:
                    return tp, giver, taker
    return None


COOPERATIVE_STICKY = "cooperative-sticky"
ASSIGNORS = ("range", "roundrobin", COOPERATIVE_STICKY)
"""Java's and librdkafka's consumers offer `range` first, aiokafka's only `roundrobin`."""


def assign(name: str, subscriptions: Subscriptions, counts: Counts, owned: Assignment) -> Assignment:
    if name == COOPERATIVE_STICKY:
        return assign_sticky(subscriptions, counts, owned)
    return (assign_in_turn if name == "roundrobin" else assign_ranges)(subscriptions, counts)
