from __future__ import annotations

from barnabas.services.console.sampling.commits import GroupPositions, ListedGroupAt
from barnabas.services.console.sampling.end_times import EndTimes
from barnabas.services.console.sampling.lag import committed_between, measure_group, worse
from barnabas.services.console.sampling.snapshot import GroupSample, WorstLag

NOW = 1_800_000_000_000


def measured(positions: GroupPositions, ends: dict[str, tuple[int, ...]]) -> GroupSample:
    times = EndTimes()
    for topic, numbers in ends.items():
        times.note(topic, NOW - 10_000, tuple(number - 100 for number in numbers))
        times.note(topic, NOW, numbers)
    group = ListedGroupAt("g", "classic", "Stable", "consumer", 1)
    return measure_group(group, positions, ends, times, NOW, None)


def test_a_group_without_commits_has_no_lag() -> None:
    found = measured(GroupPositions({}), {"t": (500,)})

    assert (found.lag, found.lag_seconds) == (None, None)


def test_lag_is_counted_in_partitions_with_a_commit_only() -> None:
    found = measured(
        GroupPositions({"t": {0: 450, 2: 500}, "u": {0: 40}}), {"t": (500, 999, 500), "u": (41,)}
    )

    assert found.lag == 51
    assert found.lag_seconds == 5
    assert [(row.topic, row.partition, row.lag) for row in found.partitions()] == [
        ("t", 0, 50),
        ("t", 2, 0),
        ("u", 0, 1),
    ]


def test_group_ahead_of_a_recreated_log_has_no_lag() -> None:
    found = measured(GroupPositions({"t": {0: 900}}), {"t": (500,)})

    assert (found.lag, found.lag_seconds) == (0, 0.0)


def test_a_topic_that_was_deleted_leaves_an_unknown_lag() -> None:
    found = measured(GroupPositions({"gone": {0: 900}}), {})

    (row,) = found.partitions()
    assert (row.lag, row.seconds, found.lag) == (None, None, 0)


def test_counts_of_a_coordinator_are_trusted() -> None:
    found = measured(GroupPositions({"t": {0: 400}}, {"t": {0: 7}}), {"t": (500,)})

    assert found.lag == 7


def test_a_group_that_was_set_back_has_committed_nothing() -> None:
    before = GroupPositions({"t": {0: 10, 1: 10}, "u": {0: 1}})
    after = GroupPositions({"t": {0: 15, 1: 0, 2: 99}, "v": {0: 5}})

    assert committed_between(before, after) == {"t": 5}


def test_more_seconds_are_worse_than_more_records() -> None:
    late, large, unknown = (
        WorstLag("late", 1, 60.0),
        WorstLag("large", 10**9, 1.0),
        WorstLag("unknown", 5, None),
    )

    assert worse(large, late) is late
    assert worse(None, unknown) is unknown
    assert worse(unknown, large) is large
