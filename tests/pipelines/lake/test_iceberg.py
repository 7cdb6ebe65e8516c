"""An Iceberg table written by Spark with Iceberg's library, read by Iceberg's reader."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

from barnabas.pipelines.definitions.settings import Compaction, Lake
from barnabas.pipelines.lake import iceberg_table
from barnabas.pipelines.lake.iceberg_table import BATCH, IcebergTable
from barnabas.pipelines.lake.iceberg_writing import NOTES, IcebergCompactor, IcebergWriter, _folder
from barnabas.pipelines.lake.writer import check_schema
from barnabas.spark.errors import PipelineError
from barnabas.spark.hadoop_files import HadoopFolder
from barnabas.spark.java import jvm_of
from tests.support.spark.iceberg import file_count, load, rows_of
from tests.support.spark.jars import requires_iceberg

pytestmark = [requires_iceberg, pytest.mark.timeout(300)]

HOUR = 3600
START = 1_800_000_000 // HOUR * HOUR


def hours(session: SparkSession, *hours: int, start: int = 0) -> DataFrame:
    """Ten records in each of the hours, the keys counted from `start`."""
    rows = [(hour, index) for hour in hours for index in range(10)]
    values = ", ".join(
        f"('{start + number}', timestamp_seconds({START + hour * HOUR + index}), array('a', 'b'))"
        for number, (hour, index) in enumerate(rows)
    )
    return session.sql(f"SELECT * FROM VALUES {values} AS t(key, time, tags)")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(path=f"file://{tmp_path}/table", format="iceberg", hours="time", files_per_batch=1)


def keys_of(session: SparkSession, lake: Lake) -> Counter[str]:
    return Counter(row["key"] for row in rows_of(session, lake.path))


def test_a_batch_is_one_snapshot_and_is_never_there_twice(spark: SparkSession, lake: Lake) -> None:
    first, second = hours(spark, 0, 1), hours(spark, 1, start=100)
    writer = IcebergWriter(spark, lake, (), "query-1")
    writer(first, 0)
    writer(first, 0)
    again = IcebergWriter(spark, lake, (), "query-1")  # another driver
    again(first, 0)
    again(second, 1)
    writer(second, 1)
    again(second.where("false"), 2)
    assert keys_of(spark, lake) == Counter(map(str, [*range(20), *range(100, 110)]))
    table = load(spark, lake.path)
    assert [(snapshot.operation(), snapshot.summary().get(BATCH)) for snapshot in table.snapshots()] == [
        ("append", "0"),
        ("append", "1"),
    ]
    assert table.spec().toString().count("hour(2)") == 1
    row = next(row for row in rows_of(spark, lake.path) if row["key"] == "11")
    assert (row["time"], row["tags"]) == ((START + HOUR + 1) * 1_000_000, ["a", "b"])


def test_files_of_an_attempt_that_was_killed_are_removed_by_the_next(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    frame = hours(spark, 0)
    writer = IcebergWriter(spark, lake, (), "query-1")
    writer.write_files(frame, writer._open(frame), f"{writer._name(0)}killed")
    assert keys_of(spark, lake) == Counter()
    IcebergWriter(spark, lake, (), "query-1")(frame, 0)
    assert keys_of(spark, lake) == Counter(map(str, range(10)))
    assert len(list((tmp_path / "table" / "data").iterdir())) == 1


def test_replaced_driver_cannot_commit_the_work_of_its_successor(spark: SparkSession, lake: Lake) -> None:
    """It has written its files and read the table, then sleeps while the other driver commits the batch."""
    first, second = hours(spark, 0), hours(spark, 0, start=100)
    sleeper = IcebergWriter(spark, lake, (), "query-1")
    sleeper(first, 0)
    successor = IcebergWriter(spark, lake, (), "query-1")
    steps = [lambda: successor(second, 1)]

    class Sleeping(IcebergTable):
        def latest_batch(self, query: str) -> int:
            found = super().latest_batch(query)
            if steps:
                steps.pop()()
            return found

    table = Sleeping(spark, lake.path, first.schema, "time")
    files = sleeper.write_files(second, table, f"{sleeper._name(1)}sleeper")
    assert not table.append(files, "query-1", 1)
    assert not steps
    assert keys_of(spark, lake) == Counter(map(str, [*range(10), *range(100, 110)]))


def test_hours_that_no_longer_grow_get_fewer_files_in_one_step(spark: SparkSession, lake: Lake) -> None:
    writer = IcebergWriter(spark, lake, (), "query-1")
    for batch in range(3):
        writer(hours(spark, 0, 1, start=100 * batch), batch)
    writer(hours(spark, 2, start=900), 3)
    before = keys_of(spark, lake)
    assert file_count(spark, lake.path) == 7
    compactor = compactor_of(spark, lake, Compaction(files=2, after="1 hour"))
    assert compactor.run() == 2
    assert compactor.run() == 0
    assert file_count(spark, lake.path) == 3
    assert keys_of(spark, lake) == before
    writer(hours(spark, 2, start=900), 3)  # earlier batches are still known
    assert keys_of(spark, lake) == before


def test_files_of_a_merge_that_was_killed_are_removed(
    spark: SparkSession, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = IcebergWriter(spark, lake, (), "query-1")
    for batch, frame in enumerate((hours(spark, 0), hours(spark, 0, start=50), hours(spark, 5, start=90))):
        writer(frame, batch)
    before = keys_of(spark, lake)
    rule = Compaction(files=2, after="1 hour")
    with monkeypatch.context() as patched:
        patched.setattr(IcebergTable, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            compactor_of(spark, lake, rule).run()
    data = tmp_path / "table" / "data"
    assert len(list(data.glob("merge-*"))) == 1
    compactor = compactor_of(spark, lake, rule)
    compactor.remove_abandoned_files()
    assert len(list(data.glob("merge-*"))) == 1  # a killed driver might be suspended, and commit it
    assert compactor.run() == 1
    assert len(list(data.glob("merge-*"))) == 1  # the new one
    assert not list((data / NOTES).glob("merge-*"))
    assert keys_of(spark, lake) == before


def test_a_note_that_was_never_finished_is_not_read(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    IcebergWriter(spark, lake, (), "query-1")(hours(spark, 0), 0)
    notes = tmp_path / "table" / "data" / NOTES
    notes.mkdir()
    (notes / ".merge-0123.new").write_text('["file:')
    compactor_of(spark, lake, Compaction()).remove_abandoned_files()
    assert keys_of(spark, lake) == Counter(map(str, range(10)))


def test_hours_far_from_now_are_no_hours_to_merge() -> None:
    """A producer that writes microseconds instead of milliseconds is in the year 58,000."""
    assert _folder(START // HOUR) == "date=2027-01-15/hour=08"
    assert [_folder(hour) for hour in (500_000_000, 2**31 - 1, -(2**31), None)] == ["none"] * 4


def test_columns_whose_types_have_changed_are_refused(spark: SparkSession, lake: Lake) -> None:
    IcebergWriter(spark, lake, (), "query-1")(hours(spark, 0), 0)
    other = hours(spark, 0).selectExpr("key", "time", "size(tags) AS tags", "1 AS more")
    sentence = r"has other columns than the flow that fills it \(more, tags\)"
    with pytest.raises(PipelineError, match=sentence):
        check_schema(spark, lake, other.schema)
    with pytest.raises(PipelineError, match=sentence):
        IcebergWriter(spark, lake, (), "query-2")(other, 0)


def test_a_table_gains_the_columns_of_the_rows(spark: SparkSession, lake: Lake) -> None:
    IcebergWriter(spark, lake, (), "query-1")(hours(spark, 0).selectExpr("*", "1 AS size"), 0)
    wider = hours(spark, 1, start=10).selectExpr(
        "key", "time", "named_struct('city', key) AS place", "1L AS size"
    )
    fixed = msgspec.structs.replace(lake, schema_evolution="fail")
    with pytest.raises(PipelineError, match="set `schema_evolution: add`"):
        check_schema(spark, fixed, wider.schema)
    check_schema(spark, lake, wider.schema)
    writer = IcebergWriter(spark, lake, (), "query-2")
    writer(wider, 0)
    writer(wider.where("false"), 1)
    narrow = hours(spark, 2, start=20).select("key", "time")
    IcebergWriter(spark, lake, (), "query-3")(narrow, 0)
    rows = {
        row["key"]: (row["place"] and row["place"]["city"], row["size"]) for row in rows_of(spark, lake.path)
    }
    assert (rows["0"], rows["10"], rows["20"]) == ((None, 1), ("10", 1), (None, None))
    assert len(rows) == 30


def test_missing_iceberg_library_is_reported_with_a_remedy(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(iceberg=jvm_of(spark).nowhere)))
    monkeypatch.setattr(iceberg_table, "jvm_of", lambda session: elsewhere)
    with pytest.raises(PipelineError, match=r"spark\.jars\.packages: org\.apache\.iceberg:iceberg-parquet"):
        iceberg_table.iceberg_of(spark)


def killed(*arguments: Any) -> bool:
    raise KeyboardInterrupt


def compactor_of(session: SparkSession, lake: Lake, rule: Compaction) -> IcebergCompactor:
    table = IcebergTable(session, lake.path, hours(session, 0).schema, "time")
    return IcebergCompactor(session, table, HadoopFolder(session, f"{lake.path}/data"), rule)
