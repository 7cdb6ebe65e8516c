"""Folder names of a table, and selection of files to merge."""

from barnabas.pipelines.definitions.settings import Compaction
from barnabas.pipelines.lake.layout import MIB, final_name, hour_of, plan_merges

RULE = Compaction(files=3, after="1 hour", target_mib=1)


def files(hour: int, count: int, size: int = 1000) -> list[tuple[str, int]]:
    return [(f"date=2026-11-16/hour={hour}/batch-{index}.parquet", size) for index in range(count)]


def test_file_gets_the_same_name_in_every_attempt_of_its_batch() -> None:
    names = {
        final_name(
            f"date=2026-11-16/hour=7/part-00000-{attempt}.c000.snappy.parquet", "0123456789abcdef", 12, 3
        )
        for attempt in ("uuid-a", "uuid-b")
    }
    assert names == {"date=2026-11-16/hour=7/batch-01234567-00000012-0003.c000.snappy.parquet"}


def test_the_newest_hour_still_grows_and_is_left_alone() -> None:
    assert [merge.partition for merge in plan_merges([*files(7, 5), *files(8, 5)], RULE)] == [
        "date=2026-11-16/hour=7"
    ]


def test_few_files_are_not_worth_it() -> None:
    assert plan_merges([*files(7, 2), *files(9, 1)], RULE) == []


def test_large_hours_become_several_files() -> None:
    (merge,) = plan_merges([*files(7, 5, MIB * 2 // 5), *files(9, 1)], RULE)
    assert (len(merge.files), merge.pieces) == (5, 2)


def test_sufficiently_large_files_are_not_rewritten() -> None:
    assert plan_merges([*files(7, 16, MIB), *files(9, 1)], RULE) == []
    large = [(f"date=2026-11-16/hour=7/large-{index}.parquet", MIB) for index in range(4)]
    (merge,) = plan_merges([*files(7, 5), *large, *files(9, 1)], RULE)
    assert (len(merge.files), merge.pieces) == (5, 1)


def test_folders_that_are_no_hours_are_left_alone() -> None:
    assert plan_merges([(f"region=eu/{index}.parquet", 1) for index in range(9)], RULE) == []


def test_hours_that_python_has_no_datetime_for_are_left_alone() -> None:
    for date, hour in (("0000-01-01", 7), ("2026-13-45", 7), ("9999-12-31", 99)):
        assert hour_of(f"date={date}/hour={hour}") is None
    odd = [(f"date=0000-01-01/hour=7/{index}.parquet", 1) for index in range(9)]
    assert [merge.partition for merge in plan_merges([*odd, *files(7, 5), *files(8, 5)], RULE)] == [
        "date=2026-11-16/hour=7"
    ]


def test_the_first_hour_that_there_is_may_be_the_newest() -> None:
    assert plan_merges([("date=0001-01-01/hour=0/only.parquet", 1)], RULE) == []
