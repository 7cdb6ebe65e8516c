"""Large groups: the cost of an assignor is linear in members plus partitions."""

from collections.abc import Iterator, Set
from typing import Any

import pytest

from barnabas.common.cooperative import finish
from barnabas.common.types import Uuid
from barnabas.groups.assignors import CONSUMER_ASSIGNORS, MemberSpec, subscribers_steps
from barnabas.groups.share import assignor as share
from barnabas.groups.streams import assignor as streams

MEMBERS, TOPICS = 100, 300


class Counting(Set[Uuid]):
    """A subscription that counts its lookups and iterations."""

    def __init__(self, topics: Set[Uuid]) -> None:
        self._topics = frozenset(topics)
        self.steps = 0

    def __contains__(self, topic: object) -> bool:
        self.steps += 1
        return topic in self._topics

    def __iter__(self) -> Iterator[Uuid]:
        self.steps += len(self._topics)
        return iter(self._topics)

    def __len__(self) -> int:
        return len(self._topics)

    @classmethod
    def _from_iterable(cls, it: Any) -> Set[Uuid]:  # type: ignore[override]
        return frozenset(it)


TOPIC_IDS = [number.to_bytes(16, "big") for number in range(TOPICS)]
COUNTS = dict.fromkeys(TOPIC_IDS, 2)


@pytest.mark.parametrize("name", ["uniform", "range"])
@pytest.mark.parametrize("kinds", [1, 3])
def test_subscription_shared_by_many_members_is_resolved_a_few_times(name: str, kinds: int) -> None:
    shared = [Counting(frozenset(TOPIC_IDS[kind:])) for kind in range(kinds)]
    members = {f"m{number:03}": MemberSpec(shared[number % kinds], {}) for number in range(MEMBERS)}
    first = CONSUMER_ASSIGNORS[name](members, COUNTS)
    again = CONSUMER_ASSIGNORS[name](
        {member_id: spec._replace(assigned=first[member_id]) for member_id, spec in members.items()}, COUNTS
    )
    assigned = sum(len(indexes) for target in again.values() for indexes in target.values())
    assert assigned == 2 * TOPICS
    assert sum(one.steps for one in shared) < 20 * kinds * TOPICS < MEMBERS * TOPICS


def test_subscription_shared_by_share_group_members_is_resolved_a_few_times() -> None:
    shared = Counting(frozenset(TOPIC_IDS))
    partitions = dict.fromkeys(TOPIC_IDS, frozenset({0, 1}))
    targets = share.assign({f"m{number:03}": shared for number in range(MEMBERS)}, partitions, {})
    assert sum(len(indexes) for target in targets.values() for indexes in target.values()) == 2 * TOPICS
    assert shared.steps < 20 * TOPICS


def test_topics_with_the_same_subscribers_have_the_same_list() -> None:
    first, second = frozenset(TOPIC_IDS[:2]), frozenset(TOPIC_IDS[1:3])
    members = {"b": MemberSpec(first, {}), "a": MemberSpec(second, {}), "c": MemberSpec(first, {})}
    found = finish(subscribers_steps(members))
    assert found == {TOPIC_IDS[0]: ["b", "c"], TOPIC_IDS[1]: ["b", "a", "c"], TOPIC_IDS[2]: ["a"]}


def test_many_threads_of_one_process_get_equal_shares() -> None:
    members = {f"m{number:03}": streams.StreamsMemberSpec("one process") for number in range(MEMBERS)}
    targets = streams.assign(members, {"0": streams.SubtopologySpec(5 * MEMBERS, is_stateful=True)}, 0)
    assert {len(target.active) for target in targets.values()} == {5}
