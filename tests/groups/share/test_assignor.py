"""The assignor `simple`: every member has partitions, every partition a member, and few move."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.types import Uuid
from barnabas.groups.share.assignor import assign

TOPICS: list[Uuid] = [bytes([number]) * 16 for number in range(1, 5)]
PARTITIONS = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 7), min_size=1).map(
    lambda counts: {topic: frozenset(range(count)) for topic, count in counts.items()}
)
SUBSCRIPTIONS = st.dictionaries(
    st.integers(0, 20).map("member-{:02}".format), st.sets(st.sampled_from(TOPICS), min_size=1), min_size=1
)


@given(SUBSCRIPTIONS, PARTITIONS)
def test_every_member_and_every_partition_is_served(
    subscriptions: dict[str, set[Uuid]], partitions: dict[Uuid, frozenset[int]]
) -> None:
    targets = assign(subscriptions, partitions, {})
    wanted = {topic for topics in subscriptions.values() for topic in topics} & partitions.keys()
    served = {(topic, index) for target in targets.values() for topic in target for index in target[topic]}
    assert served == {(topic, index) for topic in wanted for index in partitions[topic]}
    for member, target in targets.items():
        assert target.keys() <= subscriptions[member]
        assert bool(target) == bool(subscriptions[member] & partitions.keys())


@given(st.integers(1, 20), PARTITIONS)
def test_members_with_the_same_topics_share_evenly(
    count: int, partitions: dict[Uuid, frozenset[int]]
) -> None:
    members = {f"member-{number:02}": set(TOPICS) for number in range(count)}
    targets = assign(members, partitions, {})
    sizes = [sum(map(len, target.values())) for target in targets.values()]
    sharers = Counter(
        (topic, index) for target in targets.values() for topic in target for index in target[topic]
    )
    assert max(sizes) - min(sizes) <= 1
    assert max(sharers.values()) - min(sharers.values()) <= 1


@given(SUBSCRIPTIONS, PARTITIONS)
def test_balanced_assignment_is_unchanged(
    subscriptions: dict[str, set[Uuid]], partitions: dict[Uuid, frozenset[int]]
) -> None:
    targets = assign(subscriptions, partitions, {})
    assert assign(subscriptions, partitions, targets) == targets


def test_a_member_that_comes_takes_no_more_than_its_share() -> None:
    partitions = {TOPICS[0]: frozenset(range(6))}
    before = assign({"a": {TOPICS[0]}, "b": {TOPICS[0]}}, partitions, {})
    after = assign({"a": {TOPICS[0]}, "b": {TOPICS[0]}, "c": {TOPICS[0]}}, partitions, before)
    assert len(after["c"][TOPICS[0]]) == 2
    for member in ("a", "b"):
        assert after[member][TOPICS[0]] < before[member][TOPICS[0]]
