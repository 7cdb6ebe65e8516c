"""A batch that Spark runs again after its results were decided: nothing twice, and the stream goes on."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from barnabas.pipelines.definitions.settings import Lake
from barnabas.pipelines.lake.writing import LakeWriter, lake_writer


def write(folder: Path, name: str, *ids: int) -> None:
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"id": number, "time": "2026-11-16T07:00:00Z"}) for number in ids]
    (folder / name).write_text("\n".join(lines))


def start(spark: SparkSession, folder: Path) -> StreamingQuery:
    """A stream with a state: what it has seen it does not let pass again."""
    checkpoint, lake = str(folder / "checkpoint"), Lake(path=f"file://{folder}/table")
    events = spark.readStream.schema("id INT, time TIMESTAMP").json(str(folder / "input"))
    new = events.withWatermark("time", "1 hour").dropDuplicates(["id"])
    writer = lake_writer(spark, lake, [], checkpoint)
    query = new.writeStream.foreachBatch(writer).option("checkpointLocation", checkpoint)
    return query.trigger(availableNow=True).start()


def test_a_stream_with_a_state_goes_on_after_a_batch_that_was_decided_and_not_finished(
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
