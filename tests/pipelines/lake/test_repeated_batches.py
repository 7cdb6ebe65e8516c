"""A batch repeated by Spark after its results were decided: no duplicates, and the stream continues."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from barnabas.pipelines.definitions.settings import Compaction, Lake
from barnabas.pipelines.lake.writer import Compactor, LakeWriter, lake_writer
from barnabas.spark.errors import PipelineError
from barnabas.spark.hadoop_files import HadoopFolder


def write(folder: Path, name: str, *ids: int) -> None:
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"id": number, "time": "2026-11-16T07:00:00Z"}) for number in ids]
    (folder / name).write_text("\n".join(lines))


def start(spark: SparkSession, folder: Path) -> StreamingQuery:
    """A stateful stream that drops known values."""
    checkpoint, lake = str(folder / "checkpoint"), Lake(path=f"file://{folder}/table")
    events = spark.readStream.schema("id INT, time TIMESTAMP").json(str(folder / "input"))
    new = events.withWatermark("time", "1 hour").dropDuplicates(["id"])
    writer = lake_writer(spark, lake, [], checkpoint)
    query = new.writeStream.foreachBatch(writer).option("checkpointLocation", checkpoint)
    return query.trigger(availableNow=True).start()


def test_stateful_stream_continues_after_a_decided_unfinished_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "input", "first.json", 1, 2, 2)
    with monkeypatch.context() as patch:
        patch.setattr(LakeWriter, "_finish", lambda *_: 1 / 0)
        with pytest.raises(Exception, match="division by zero"):
            start(spark, tmp_path).awaitTermination(120)
    start(spark, tmp_path).awaitTermination(120)
    write(tmp_path / "input", "second.json", 2, 3)
    start(spark, tmp_path).awaitTermination(120)
    found = spark.read.parquet(f"file://{tmp_path}/table").select("id").collect()
    assert sorted(row.id for row in found) == [1, 2, 3]


def test_a_column_that_has_changed_its_type_is_refused_and_a_new_one_is_kept_when_files_are_merged(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(path=f"file://{tmp_path}/table", files_per_batch=1)
    place = ("'2026-11-16' AS date", "7 AS hour")
    LakeWriter(spark, lake, ["date", "hour"], "query-1")(spark.range(2).selectExpr("id", *place), 0)
    wider = spark.range(2, 4).selectExpr("id", "CAST(id AS STRING) AS text", *place)
    again = LakeWriter(spark, lake, ["date", "hour"], "query-1")
    again(wider, 1)
    again(spark.range(1).selectExpr("id", "'2026-11-16' AS date", "12 AS hour"), 2)
    with pytest.raises(PipelineError, match=r"has other types .*\(id is bigint, not string\)"):
        LakeWriter(spark, lake, [], "query-2")(
            spark.range(1).selectExpr("CAST(id AS STRING) AS id", *place), 0
        )
    folder = HadoopFolder(spark, lake.path)
    assert Compactor(spark, folder, Compaction(files=2, after="1 hour")).run() == 1
    found = spark.read.parquet(f"{lake.path}/date=2026-11-16/hour=7").collect()
    assert sorted((row.id, row.text) for row in found) == [(0, None), (1, None), (2, "2"), (3, "3")]
