"""Helpers of data source tests: topics with known records, read with either connector."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamReader, StreamingQuery

from tests.support.waiting import until

DEADLINE = 60.0
# Spark waits ten seconds for a Python runner, regardless of the load.
LATE_RUNNER = "connect back"
ATTEMPTS = 3
NOW = int(time.time()) * 1000  # retention would remove records older than a week


def produce(
    bootstrap: str, topic: str, values: Iterable[bytes | None], *, partition: int = 0, **settings: Any
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    for index, value in enumerate(values):
        producer.produce(topic, value, key=b"k%d" % index, partition=partition, timestamp=NOW + index)
    assert producer.flush(DEADLINE) == 0


def read(
    spark: SparkSession, bootstrap: str, topic: str, *, source: str = "barnabas", **options: str
) -> DataFrame:
    reader = spark.read.format(source).option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    return reader.options(**dots(options)).load()


def stream(
    spark: SparkSession, bootstrap: str, topic: str, *, source: str = "barnabas", **options: str
) -> DataStreamReader:
    reader = spark.readStream.format(source).option("kafka.bootstrap.servers", bootstrap)
    return reader.option("subscribe", topic).options(**dots({"startingOffsets": "earliest", **options}))


def dots(options: Mapping[str, str]) -> dict[str, str]:
    """`kafka_isolation_level` is `kafka.isolation.level`: Python has no dots in names."""
    return {
        name.replace("_", ".") if name.startswith(("kafka_", "value_")) else name: value
        for name, value in options.items()
    }


def started(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """A query that has run its first batch; restarted if its runner was late."""
    for _ in range(ATTEMPTS):
        query = start()
        _wait_for_the_first_batch(query)
        error = query.exception()
        if error is None:
            return query
        if LATE_RUNNER not in str(error):
            raise error
    raise AssertionError(f"the runner was late {ATTEMPTS} times")


def _wait_for_the_first_batch(query: StreamingQuery) -> None:
    until(lambda: not (query.isActive and query.lastProgress is None), "no batch came", seconds=2 * DEADLINE)


def run_to_end(start: Callable[[], StreamingQuery]) -> None:
    """Everything available now. The query is restarted if its runner was late."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            assert start().awaitTermination(int(DEADLINE) * 4)
            return
        except StreamingQueryException as error:
            if LATE_RUNNER not in str(error) or attempt == ATTEMPTS:
                raise
