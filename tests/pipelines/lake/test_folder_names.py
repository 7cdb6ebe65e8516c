"""Partition columns whose names begin with an underscore are not hidden in Spark."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from barnabas.pipelines.definitions.settings import Compaction, Lake
from barnabas.pipelines.lake.iceberg_table import IcebergTable
from barnabas.pipelines.lake.iceberg_writing import IcebergCompactor, IcebergWriter
from barnabas.pipelines.lake.writer import Compactor, LakeWriter
from barnabas.spark import hadoop_files
from barnabas.spark.hadoop_files import HadoopFolder
from tests.support.spark.iceberg import file_count, rows_of
from tests.support.spark.jars import requires_iceberg

pytestmark = pytest.mark.timeout(300)

RULE = Compaction(files=2, after="1 hour")
ROWS = 5
FORMATS = ["parquet", pytest.param("iceberg", marks=requires_iceberg)]


def batch_of(spark: SparkSession, number: int) -> DataFrame:
    """The first two are of one hour, the third of a later one."""
    hour = 7 if number < 2 else 12
    return spark.range(number * ROWS, (number + 1) * ROWS).selectExpr(
        "id",
        f"timestamp'2026-11-16 {hour:02}:00:00Z' AS _time",
        "'a' AS _topic",
        "'2026-11-16' AS date",
        f"{hour} AS hour",
    )


def lake_of(tmp_path: Path, kind: Any) -> Lake:
    return Lake(path=f"file://{tmp_path}/table", format=kind, hours="_time", files_per_batch=1)


def writer_of(spark: SparkSession, lake: Lake) -> IcebergWriter | LakeWriter:
    if lake.format == "iceberg":
        return IcebergWriter(spark, lake, ["date", "hour"], "query-1")
    return LakeWriter(spark, lake, ["_topic", "date", "hour"], "query-1")


def compact(spark: SparkSession, lake: Lake) -> int:
    if lake.format == "parquet":
        return Compactor(spark, HadoopFolder(spark, lake.path), RULE).run()
    table = IcebergTable(spark, lake.path, batch_of(spark, 0).drop("date", "hour").schema, "_time")
    return IcebergCompactor(spark, table, HadoopFolder(spark, f"{lake.path}/data"), RULE).run()


def ids_in(spark: SparkSession, lake: Lake) -> Counter[int]:
    if lake.format == "iceberg":
        return Counter(row["id"] for row in rows_of(spark, lake.path))
    return Counter(row["id"] for row in spark.read.parquet(lake.path).collect())


@pytest.mark.parametrize("kind", FORMATS)
def test_records_in_such_folders_are_kept_and_merged(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    lake = lake_of(tmp_path, kind)
    writer = writer_of(spark, lake)
    for number in range(3):
        writer(batch_of(spark, number), number)
    assert ids_in(spark, lake) == Counter(range(3 * ROWS))
    assert compact(spark, lake) == 1
    assert ids_in(spark, lake) == Counter(range(3 * ROWS))
    if kind == "iceberg":
        assert file_count(spark, lake.path) == 2
    else:
        assert len(list((tmp_path / "table").glob("_topic=a/date=*/hour=*/*.parquet"))) == 2


@pytest.mark.parametrize("kind", FORMATS)
def test_a_batch_whose_files_are_not_found_is_an_error_and_one_without_records_is_none(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    lake = lake_of(tmp_path, kind)
    writer = writer_of(spark, lake)
    writer(batch_of(spark, 0).where("false"), 0)
    with monkeypatch.context() as patch:
        patch.setattr(hadoop_files, "is_hidden", lambda name: True)
        with pytest.raises(OSError, match="Spark has written 1 files"):
            writer(batch_of(spark, 1), 1)
    writer(batch_of(spark, 1), 1)
    assert ids_in(spark, lake) == Counter(range(ROWS, 2 * ROWS))
