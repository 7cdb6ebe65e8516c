"""Assignors: complete, balanced, and with the fewest moves."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.groups.assignors import CONSUMER_ASSIGNORS, MemberSpec, assign_ranges, assign_uniformly
from barnabas.groups.modern import Assignment

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16
COUNTS = st.fixed_dictionaries({topic: st.integers(1, 9) for topic in (A, B, C)})
NAMES = [f"m{number}" for number in range(7)]


@st.composite
def groups(draw: st.DrawFn, *, alike: bool = False) -> tuple[dict[str, MemberSpec], dict[bytes, int]]:
    """Members with subscriptions, and an assignment that was once valid."""
    counts = draw(COUNTS)
    members: dict[str, MemberSpec] = {}
    free = {(topic, index) for topic, count in counts.items() for index in range(count + 1)}
    topics = st.sets(st.sampled_from((A, B, C)), min_size=1)
    shared = draw(topics)
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True)):
        had = draw(st.sets(st.sampled_from(sorted(free)), max_size=8)) if free else set()
        free -= had
        assigned: dict[bytes, set[int]] = {}
        for topic, index in had:
            assigned.setdefault(topic, set()).add(index)
        members[name] = MemberSpec(shared if alike else draw(topics), assigned)
    return members, {topic: counts[topic] for spec in members.values() for topic in spec.topics}


def sizes(assignments: dict[str, Assignment]) -> dict[str, int]:
    return {name: sum(map(len, share.values())) for name, share in assignments.items()}


@given(groups(), st.sampled_from(sorted(CONSUMER_ASSIGNORS)))
def test_every_partition_has_one_subscriber(
    group: tuple[dict[str, MemberSpec], dict[bytes, int]], name: str
) -> None:
    members, counts = group
    assignments = CONSUMER_ASSIGNORS[name](members, counts)
    assert set(assignments) == set(members)
    given_out = Counter(
        (topic, index)
        for share in assignments.values()
        for topic, indexes in share.items()
        for index in indexes
    )
    assert given_out == Counter((topic, index) for topic, count in counts.items() for index in range(count))
    for member_id, share in assignments.items():
        assert share.keys() <= members[member_id].topics
        assert all(share.values())


@given(groups(alike=True))
def test_uniform_assigns_equal_numbers(
    group: tuple[dict[str, MemberSpec], dict[bytes, int]],
) -> None:
    members, counts = group
    numbers = sizes(assign_uniformly(members, counts)).values()
    assert max(numbers) - min(numbers) <= 1


@given(groups(alike=True))
def test_uniform_moves_no_more_than_balance_demands(
    group: tuple[dict[str, MemberSpec], dict[bytes, int]],
) -> None:
    members, counts = group
    assignments = assign_uniformly(members, counts)
    minimum, extra = divmod(sum(counts.values()), len(members))
    had = {
        name: sum(index < counts.get(topic, 0) for topic, some in spec.assigned.items() for index in some)
        for name, spec in members.items()
    }
    larger = sorted(had, key=lambda name: -had[name])[:extra]
    kept = {
        name: sum(
            len(share.get(topic, frozenset()) & set(some)) for topic, some in members[name].assigned.items()
        )
        for name, share in assignments.items()
    }
    best = sum(min(had[name], minimum + (name in larger)) for name in members)
    assert sum(kept.values()) == best


@given(groups())
@settings(max_examples=60)
def test_uniform_leaves_no_move_that_would_help(
    group: tuple[dict[str, MemberSpec], dict[bytes, int]],
) -> None:
    members, counts = group
    assignments = assign_uniformly(members, counts)
    load = sizes(assignments)
    for giver, share in assignments.items():
        for topic in share:
            takers = [name for name, spec in members.items() if topic in spec.topics]
            assert all(load[giver] - load[taker] <= 1 for taker in takers)


@given(groups(), st.sampled_from(sorted(CONSUMER_ASSIGNORS)))
def test_an_assignment_that_is_good_stays_as_it_is(
    group: tuple[dict[str, MemberSpec], dict[bytes, int]], name: str
) -> None:
    members, counts = group
    first = CONSUMER_ASSIGNORS[name](members, counts)
    again = {member_id: spec._replace(assigned=first[member_id]) for member_id, spec in members.items()}
    assert CONSUMER_ASSIGNORS[name](again, counts) == first


def test_range_gives_neighbours_and_the_same_numbers_of_every_topic() -> None:
    members = {name: MemberSpec({A, B}, {}) for name in ("x", "y")}
    assert assign_ranges(members, {A: 5, B: 5}) == {
        "x": {A: {0, 1, 2}, B: {0, 1, 2}},
        "y": {A: {3, 4}, B: {3, 4}},
    }


def test_range_puts_static_members_first_in_the_order_of_their_instances() -> None:
    members = {
        "a": MemberSpec({A}, {}),
        "c": MemberSpec({A}, {}, "one"),
        "b": MemberSpec({A}, {}, "two"),
    }
    assert assign_ranges(members, {A: 3}) == {"c": {A: {0}}, "b": {A: {1}}, "a": {A: {2}}}


def test_one_member_more_takes_only_its_share() -> None:
    counts = {A: 100}
    members = {f"m{number:02}": MemberSpec({A}, {}) for number in range(50)}
    before = assign_uniformly(members, counts)
    more = {name: MemberSpec({A}, before[name]) for name in members} | {"new": MemberSpec({A}, {})}
    after = assign_uniformly(more, counts)
    changed = [name for name in members if after[name] != before[name]]
    assert len(changed) == 1
    assert sizes(after)["new"] == 1
