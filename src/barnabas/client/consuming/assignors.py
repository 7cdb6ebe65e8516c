"""Who reads what in a classic group, decided by the member that leads it: Kafka's range and round robin. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from barnabas.common.types import TopicPartition

Subscriptions = Mapping[str, Sequence[str]]
"""The topics of each member."""

Counts = Mapping[str, int]
"""The partitions of each topic."""

Assignment = dict[str, list[TopicPartition]]


def assign_ranges(subscriptions: Subscriptions, counts: Counts) -> Assignment:
    """Neighbouring partitions of each topic to each member; the first members get those that are left over."""
    found: Assignment = {member: [] for member in subscriptions}
    for topic in sorted(counts):
        members = sorted(member for member, topics in subscriptions.items() if topic in topics)
        if not members:
            continue
        each, over = divmod(counts[topic], len(members))
        first = 0
        for place, member in enumerate(members):
            until = first + each + (place < over)
            found[member] += [TopicPartition(topic, index) for index in range(first, until)]
            first = until
    return found


def assign_in_turn(subscriptions: Subscriptions, counts: Counts) -> Assignment:
    """One partition after the other to the next member that wants its topic."""
    found: Assignment = {member: [] for member in subscriptions}
    members = sorted(subscriptions)
    turn = 0
    for place in (TopicPartition(topic, index) for topic in sorted(counts) for index in range(counts[topic])):
        for _ in members:
            member = members[turn % len(members)]
            turn += 1
            if place.topic in subscriptions[member]:
                found[member].append(place)
                break
    return found


ASSIGNORS: dict[str, Callable[[Subscriptions, Counts], Assignment]] = {
    "range": assign_ranges,  # what Java's and librdkafka's consumers offer first
    "roundrobin": assign_in_turn,  # the only one of aiokafka's
}
