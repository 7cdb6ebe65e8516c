"""Killable Spark queries: text files become a topic, each file is a batch.

    python -m tests.spark.sink.spark_query QUERIES

QUERIES is JSON: a list of (folder, options, fault). Spark starts one query after the other, each as soon as the one
before has come to its fault and waits there; then it waits to be killed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamWriter
from pyspark.sql.types import StructType

from pyspark_barnabas import DefaultSource
from tests.spark.sink.sabotage import flag_of, install


class SabotagedSource(DefaultSource):
    """Brings its fault to every process in which Spark plans, writes or commits a batch."""

    @classmethod
    def name(cls) -> str:
        return "sabotaged"

    def __init__(self, options: Mapping[str, str]) -> None:
        settings = dict(options)
        self._fault = settings.pop("fault")
        super().__init__(settings)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        # Not in __init__: Spark pickles the source, so most processes never construct it.
        install(self._fault)
        return super().streamWriter(schema, overwrite)


def start_query(
    spark: SparkSession, folder: Path, options: Mapping[str, str], expression: str = "value"
) -> Any:
    """To the end of the input, or until it fails."""
    stream = spark.readStream.schema("value string").option("maxFilesPerTrigger", 1)
    rows = stream.text(str(folder / "in")).repartition(2).selectExpr(f"{expression} value")
    writer = rows.writeStream.format("sabotaged" if "fault" in options else "barnabas")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint")).options(**options)
    return writer.trigger(availableNow=True).start()


def run_to_the_fault(spark: SparkSession, folder: Path, options: Mapping[str, str], fault: str) -> None:
    query = start_query(spark, folder, {**options, "fault": fault})
    while flag_of(fault).exists():
        if not query.isActive:
            raise SystemExit(f"the query has not come to its fault, {fault}: {query.exception()}")
        time.sleep(0.05)


def main(queries: str) -> None:
    from barnabas.spark.session import session_builder
    from examples.demo.pipelines import SHORT_LIVED

    settings = {"spark.driver.memory": "512m", "spark.sql.shuffle.partitions": "2"}
    spark = session_builder(
        "to be killed", master="local[2]", settings=settings, java_options=SHORT_LIVED
    ).getOrCreate()
    spark.dataSource.register(SabotagedSource)
    for folder, options, fault in json.loads(queries):
        run_to_the_fault(spark, Path(folder), options, fault)
    time.sleep(600)


if __name__ == "__main__":
    main(sys.argv[1])
