"""Two drivers that write one table of Parquet files: one suspended and replaced, or both started."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from pyspark.sql import DataFrame, SparkSession

from barnabas.pipelines.definitions.settings import Compaction, Lake
from barnabas.pipelines.lake.writer import MERGE_LOG, Compactor, LakeWriter
from barnabas.spark import batch_log
from barnabas.spark.batch_log import BatchLog
from barnabas.spark.errors import PipelineError
from barnabas.spark.hadoop_files import HadoopFolder

pytestmark = pytest.mark.timeout(300)

RULE = Compaction(files=2, after="1 hour")
ROWS = 6
LATER = 3  # batches of one hour; the next one is in a later hour, so that this hour is complete


@pytest.fixture(autouse=True)
def short_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decision on the first batch is forgotten when the sleeper wakes up: its number is free again."""
    monkeypatch.setattr(batch_log, "KEPT", 2)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(path=f"file://{tmp_path}/table", files_per_batch=1)


def batch_of(spark: SparkSession, number: int) -> DataFrame:
    hour = 7 if number < LATER else 12
    return spark.range(ROWS).selectExpr(
        f"concat('{number}-', id) AS key", "'2026-11-16' AS date", f"{hour} AS hour"
    )


def writer_of(spark: SparkSession, lake: Lake) -> LakeWriter:
    return LakeWriter(spark, lake, ["date", "hour"], "query-1")


def compactor_of(spark: SparkSession, lake: Lake) -> Compactor:
    return Compactor(spark, HadoopFolder(spark, lake.path), RULE)


def keys_in(lake: Lake) -> Counter[str]:
    """Keys found by a plain reader."""
    folder = lake.path.removeprefix("file://")
    table = pyarrow.dataset.dataset(folder, format="parquet", partitioning="hive").to_table()
    return Counter(table["key"].to_pylist())


def once(*batches: int) -> Counter[str]:
    return Counter(f"{number}-{row}" for number in batches for row in range(ROWS))


def sleep_before(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, meanwhile: Callable[[], None], calls: int = 1
) -> None:
    """At the given call of a method something else happens first, once."""
    wakes = [meanwhile]
    real = getattr(owner, name)
    seen = [0]

    def sleeping(*arguments: Any) -> Any:
        seen[0] += 1
        if seen[0] >= calls and wakes:
            wakes.pop()()
        return real(*arguments)

    monkeypatch.setattr(owner, name, sleeping)


@pytest.mark.parametrize("step", ["_write_aside", "decide", "_finish"])
def test_driver_that_resumes_late_writes_nothing_and_reports_it(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def successor() -> None:
        other = writer_of(spark, lake)
        for number in range(LATER + 1):
            other(batch_of(spark, number), number)
        assert compactor_of(spark, lake).run() == 1

    sleeper = writer_of(spark, lake)
    sleep_before(monkeypatch, sleeper._log if step == "decide" else sleeper, step, successor)
    if step == "_finish":
        sleeper(batch_of(spark, 0), 0)  # it was decided, and the other one has finished it
        with pytest.raises(PipelineError, match="Another run of this pipeline has written batch 1"):
            sleeper(batch_of(spark, 1), 1)
    else:
        with pytest.raises(PipelineError, match="Another run of this pipeline has written batch 0"):
            sleeper(batch_of(spark, 0), 0)
    assert keys_in(lake) == once(*range(LATER + 1))
    assert sorted(sleeper._log._folder.names()) == ["000000000002.json", "000000000003.json"]


def test_two_drivers_that_finish_the_same_batch_do_not_conflict(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = batch_of(spark, 0).union(batch_of(spark, LATER))  # two hours, two files
    sleeper, other = writer_of(spark, lake), writer_of(spark, lake)
    sleep_before(monkeypatch, sleeper._folder, "move", lambda: other(frame, 0), calls=2)
    sleeper(frame, 0)
    assert keys_in(lake) == once(0, LATER)
    sleeper(batch_of(spark, 1), 1)
    assert keys_in(lake) == once(0, 1, LATER)


@pytest.mark.parametrize("step", ["_write_aside", "decide", "_exchange"])
def test_an_hour_that_two_drivers_merge_is_merged_once(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    writer = writer_of(spark, lake)
    for number in (0, 1, LATER):
        writer(batch_of(spark, number), number)
    sleeper, other = compactor_of(spark, lake), compactor_of(spark, lake)

    def successor() -> None:
        assert other.run() == (step != "_exchange")
        writer(batch_of(spark, LATER + 1), LATER + 1)

    sleep_before(monkeypatch, BatchLog if step == "decide" else sleeper, step, successor)
    assert sleeper.run() == (step == "_exchange")
    assert keys_in(lake) == once(0, 1, LATER, LATER + 1)
    folder = Path(lake.path.removeprefix("file://"))
    assert len(list(folder.glob("date=*/hour=7/*.parquet"))) == 1
    assert not list(folder.glob("_barnabas/aside/merges/date=*/hour=*/*"))


@pytest.mark.parametrize("deleted", [0, 1], ids=["before its exchange", "after its first delete"])
@pytest.mark.parametrize("planned", [False, True], ids=["later", "at the same time"])
def test_a_merge_whose_driver_stopped_is_carried_out_by_one_that_merges(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch, planned: bool, deleted: int
) -> None:
    """The other one was there before the merge was decided; it may have planned the same merge already."""
    writer = writer_of(spark, lake)
    for number in range(LATER + 1):
        writer(batch_of(spark, number), number)
    sleeper, other = compactor_of(spark, lake), compactor_of(spark, lake)

    def merge_and_stop() -> None:
        sleep_before(monkeypatch, sleeper._folder, "delete", stopped, calls=deleted + 1)  # this once
        with pytest.raises(KeyboardInterrupt):
            sleeper.run()

    if planned:
        sleep_before(monkeypatch, other, "_merge", merge_and_stop)
    else:
        merge_and_stop()
    assert other.run() == 0
    assert keys_in(lake) == once(*range(LATER + 1))
    decided = BatchLog(HadoopFolder(spark, f"{lake.path}/{MERGE_LOG}/date=2026-11-16/hour=7")).latest()
    assert decided is not None
    sleeper._exchange(*decided)  # it was only asleep
    assert keys_in(lake) == once(*range(LATER + 1))
    folder = Path(lake.path.removeprefix("file://"))
    assert len(list(folder.glob("date=*/hour=7/*.parquet"))) == 1


def test_an_old_decision_that_is_carried_out_once_more_takes_nothing_back(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver is about to make sure of the last merge when another one merges the files of that merge again."""
    writer = writer_of(spark, lake)
    for number in (0, 1, LATER):
        writer(batch_of(spark, number), number)
    assert compactor_of(spark, lake).run() == 1
    writer(batch_of(spark, 2), LATER + 1)
    sleeper, other = compactor_of(spark, lake), compactor_of(spark, lake)

    def successor() -> None:
        assert other.run() == 1

    sleep_before(monkeypatch, sleeper, "_exchange", successor)
    assert sleeper.run() == 0
    assert keys_in(lake) == once(0, 1, 2, LATER)


def stopped() -> None:
    raise KeyboardInterrupt
