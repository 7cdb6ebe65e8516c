"""A query on a cluster that copies a topic exactly once, to a topic or a lake table, run by a test as its own process.

    python -m tests.spark.cluster_query JSON

The first attempt of a task that comes to a record with HOLD waits there until the test has removed the file `hold`. It
names its executor in the file `held` before. The query runs a second time when the test has created the file `again`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

HOLD = b"hold"
LATE_RUNNER = "connect back"
ATTEMPTS = 10
BATCH_ROWS = 4  # so that the sink has sent most rows of a task when it is held


def main(given: dict[str, Any]) -> None:
    from pyspark.sql.functions import col

    from barnabas.pipelines.definitions.settings import Lake
    from barnabas.pipelines.lake.writer import lake_writer
    from barnabas.spark import session_builder

    folder = Path(given["folder"])
    settings = {
        "spark.driver.memory": "600m",
        "spark.executor.memory": "600m",
        "spark.executor.cores": "1",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
        "spark.sql.shuffle.partitions": "2",
        **given["settings"],
    }
    spark = session_builder("cluster query", master=given["master"], settings=settings).getOrCreate()
    broker = {"kafka.bootstrap.servers": given["bootstrap"]}
    read = spark.readStream.format("barnabas").options(**broker).option("startingOffsets", "earliest")
    rows = read.option("subscribe", given["source"]).load().select("key", "value", "partition")
    rows = rows.repartition(2, col("partition")).mapInArrow(_holding(str(folder)), rows.schema)
    checkpoint = str(folder / "checkpoint")
    writer = rows.select("key", "value").writeStream
    if given["lake"]:
        writer = writer.foreachBatch(lake_writer(spark, Lake(path=given["lake"]), (), checkpoint))
    else:
        sink = {"topic": given["target"], "sinkId": given["target"], "handedOverBytes": "0"}
        writer = writer.format("barnabas").options(**broker, **sink)
    writer = writer.option("checkpointLocation", checkpoint)
    _run(writer.trigger(availableNow=True).start)
    (folder / "finished").touch()
    while not (folder / "again").exists():
        time.sleep(0.05)
    _run(writer.trigger(availableNow=True).start)
    spark.stop()


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
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            yield batch
            if context.attemptNumber() == 0 and any(
                value.startswith(HOLD) for value in batch["value"].to_pylist()
            ):
                _wait(Path(folder))

    return held


def _wait(folder: Path) -> None:
    aside = folder / f"held.{os.getpid()}"
    aside.write_text(
        str(parent_of(os.getppid()))
    )  # this worker was forked by a daemon, which the executor started
    aside.rename(folder / "held")
    while (folder / "hold").exists():
        time.sleep(0.05)


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
