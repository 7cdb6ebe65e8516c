"""The Spark session of a run, in which both connectors are measured with the same settings."""

import atexit
import os
from functools import cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from barnabas.spark.session import session_builder
from tests.support.spark.jars import connector_jars

CONNECTOR = "Spark's connector"  # org.apache.spark:spark-sql-kafka-0-10
CORES = 2
OURS, THEIRS = "barnabas", "kafka"  # format names


@cache
def session() -> SparkSession:
    """The session, started on first use; it ends with the run."""
    jars = connector_jars()
    if not jars:
        raise RuntimeError("no jars of Spark's Kafka connector: run `make java`")
    settings = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.driver.memory": os.environ.get("BENCH_SPARK_MEMORY", "3g"),
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
    }
    spark = session_builder("barnabas benchmark", master=f"local[{CORES}]", settings=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    atexit.register(spark.stop)
    return spark


def table(source: str, bootstrap: str, topic: str, **options: str) -> DataFrame:
    frame: DataFrame = _configured(session().read, source, bootstrap, topic, options).load()
    return frame


def stream(source: str, bootstrap: str, topic: str, **options: str) -> DataFrame:
    frame: DataFrame = _configured(session().readStream, source, bootstrap, topic, options).load()
    return frame


def _configured(reader: Any, source: str, bootstrap: str, topic: str, options: dict[str, str]) -> Any:
    dotted = {name.replace("__", "."): value for name, value in options.items()}
    reader = reader.format(source).option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    return reader.options(**dotted)
