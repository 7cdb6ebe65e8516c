"""Distribution of ranges to tasks."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.client.offsets import OffsetRange
from barnabas.common.types import TopicPartition
from barnabas.spark.source.ranges import plan_tasks, ranges_between, split


def place(index: int) -> TopicPartition:
    return TopicPartition("a", index)


def sizes(tasks: list[list[OffsetRange]]) -> list[list[int]]:
    return [[found.size for found in task] for task in tasks]


def of_sizes(*wanted: int) -> list[OffsetRange]:
    return [OffsetRange(place(index), 100, 100 + size) for index, size in enumerate(wanted)]


def test_partitions_with_nothing_new_have_no_range() -> None:
    found = ranges_between({place(0): 5, place(1): 7}, {place(0): 5, place(1): 9})

    assert found == [OffsetRange(place(1), 7, 9)]


def test_small_partitions_share_a_task_and_large_ones_do_not() -> None:
    tasks = plan_tasks(of_sizes(10, 20, 30, 500, 5, 5), shared_records=50)

    assert sizes(tasks) == [[10, 20], [30], [500], [5, 5]]


def test_where_much_is_read_more_partitions_share_a_task() -> None:
    assert sizes(plan_tasks(of_sizes(*[80] * 64), shared_records=100)) == [[80] * 4] * 16


def test_tasks_do_not_grow_without_end() -> None:
    assert sizes(plan_tasks(of_sizes(*[300] * 64), shared_records=100)) == [[300]] * 64


def test_without_sharing_each_partition_has_its_task() -> None:
    assert sizes(plan_tasks(of_sizes(1, 1, 1))) == [[1], [1], [1]]


def test_a_task_reads_no_more_than_the_limit() -> None:
    assert sizes(plan_tasks(of_sizes(25, 3), max_records=10, shared_records=100)) == [[8], [8], [9], [3]]


def test_more_tasks_than_partitions_come_from_the_large_ones() -> None:
    tasks = plan_tasks(of_sizes(5, 1000), min_partitions=4, shared_records=10_000)

    assert sizes(tasks) == [[5], [333], [333], [334]]


@given(
    st.lists(st.integers(1, 5000), min_size=1, max_size=30),
    st.none() | st.integers(1, 60),
    st.none() | st.integers(50, 900),
    st.integers(0, 3000),
)
@settings(deadline=None)
def test_every_offset_is_read_once(
    wanted: list[int], min_partitions: int | None, max_records: int | None, shared: int
) -> None:
    ranges = of_sizes(*wanted)
    tasks = plan_tasks(ranges, min_partitions=min_partitions, max_records=max_records, shared_records=shared)

    read = sorted(part for task in tasks for part in task)
    assert sum(part.size for part in read) == sum(wanted)
    for before, after in pairwise(read):
        assert before.tp != after.tp or before.until == after.first
    for task in tasks:
        assert len({part.tp for part in task}) == len(task)
        assert max_records is None or all(part.size <= max_records for part in task)


def test_parts_differ_by_one_at_most() -> None:
    parts = split(OffsetRange(place(0), 3, 20), 5)

    assert [part.size for part in parts] == [3, 3, 3, 4, 4]
    assert parts[0].first == 3
    assert parts[-1].until == 20
