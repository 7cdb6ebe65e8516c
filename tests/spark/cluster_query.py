"""A query on a cluster that copies a topic exactly once to a topic or lake table, as a separate process.

    python -m tests.spark.cluster_query JSON

Each target has a folder and a query. The first attempt of a task that comes to a record with HOLD names its executor
in the file `held` and waits until the test has removed the file `hold`. The query runs a second time when
the test has created the file `again`; then the next one begins.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from tests.support.waiting import until

HOLD = b"hold"
TARGETS = ("topic", "parquet", "iceberg", "delta")
SECONDS = 400.0  # a cluster on a busy machine
LATE_RUNNER = "connect back"
ATTEMPTS = 10
BATCH_ROWS = 4  # so that the sink has sent most rows of a task when it is held


def main(given: dict[str, Any]) -> None:
    from barnabas.spark import session_builder
    from tests.support.spark.jars import connect_jars, iceberg_jars

    settings = {
        "spark.driver.memory": "700m",
        "spark.executor.memory": "600m",
        "spark.executor.cores": "1",
        "spark.jars": ",".join(map(str, [*iceberg_jars(), *connect_jars()])),
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
        "spark.sql.shuffle.partitions": "2",
        **given["settings"],
    }
    spark = session_builder("cluster query", master=given["master"], settings=settings).getOrCreate()
    for name in TARGETS:
        _run_twice(spark, given, name, Path(given["folder"]) / name)
    spark.stop()


def _run_twice(spark: SparkSession, given: dict[str, Any], name: str, folder: Path) -> None:
    writer = _written(spark, given, name, folder).option("checkpointLocation", str(folder / "checkpoint"))
    _run(writer.trigger(availableNow=True).start)
    (folder / "finished").touch()
    until((folder / "again").exists, f"{name} is not run again", SECONDS)
    _run(writer.trigger(availableNow=True).start)
    if name == "iceberg":
        from tests.support.spark.iceberg import rows_of

        values = [row["value"] for row in rows_of(spark, (folder / "table").as_uri())]
        (folder / "values").write_text(json.dumps([base64.b64encode(value).decode() for value in values]))
    (folder / "ended").touch()


def _written(spark: SparkSession, given: dict[str, Any], name: str, folder: Path) -> DataStreamWriter:
    from pyspark.sql.functions import col

    broker = {"kafka.bootstrap.servers": given["bootstrap"]}
    read = spark.readStream.format("barnabas").options(**broker).option("startingOffsets", "earliest")
    rows = read.option("subscribe", given["source"]).load().select("key", "value", "partition", "timestamp")
    rows = rows.repartition(2, col("partition")).mapInArrow(_holding(str(folder)), rows.schema)
    if name == "topic":
        sink = {"topic": given["target"], "sinkId": given["target"], "handedOverBytes": "0"}
        return rows.select("key", "value").writeStream.format("barnabas").options(**broker, **sink)
    return rows.writeStream.foreachBatch(_table_writer(spark, name, folder))


def _table_writer(spark: SparkSession, name: str, folder: Path) -> Callable[[DataFrame, int], None]:
    from barnabas.connect.delta import DeltaTable
    from barnabas.pipelines.definitions.settings import Lake
    from barnabas.pipelines.lake.writer import lake_writer, query_id

    url, checkpoint = (folder / "table").as_uri(), str(folder / "checkpoint")
    if name == "delta":
        table = DeltaTable(spark, url)
        return lambda rows, batch: table.append(rows, query_id(spark, checkpoint), batch)
    if name == "iceberg":
        return lake_writer(spark, Lake(path=url, format="iceberg", hours="timestamp"), (), checkpoint)
    return lake_writer(spark, Lake(path=url), (), checkpoint)


def _run(start: Callable[[], StreamingQuery]) -> None:
    """To the end of the topic. Spark waits ten seconds for its Python, which starts later on a busy machine."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            start().awaitTermination()
            return
        except StreamingQueryException as error:
            if LATE_RUNNER not in str(error) or attempt == ATTEMPTS:
                raise


def _holding(folder: str) -> Any:
    def held(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            is_held = any(value.startswith(HOLD) for value in batch["value"].to_pylist())
            if is_held and not (Path(folder) / "held").exists():
                _wait(Path(folder))

    return held


def _wait(folder: Path) -> None:
    aside = folder / f"held.{os.getpid()}"
    # This worker was forked by a daemon, which the executor started.
    aside.write_text(str(parent_of(os.getppid())))
    aside.rename(folder / "held")
    while (folder / "hold").exists():
        time.sleep(0.05)


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
