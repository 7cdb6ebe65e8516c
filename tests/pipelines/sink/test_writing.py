"""DataFrames become topics: batch jobs and queries, read back by confluent-kafka."""

from collections import Counter
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from barnabas.testing import EmbeddedBroker
from tests.pipelines.sink.reading import read_committed


@pytest.fixture
def target(request: pytest.FixtureRequest, broker: EmbeddedBroker) -> Iterator[dict[str, str]]:
    """Options that write to a topic of the test's own, with three partitions."""
    topic = request.node.name.replace("[", "-").replace("]", "")[:200]
    broker.create_topic(topic, partitions=3)
    return {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic}


def write(frame: DataFrame, options: dict[str, str], **more: str) -> None:
    frame.write.format("barnabas").options(**options, **more).mode("append").save()


def values(options: dict[str, str]) -> list[str]:
    found = read_committed(options["kafka.bootstrap.servers"], options["topic"])
    return [message.value().decode() for message in found]


def numbers(spark: SparkSession, count: int, tasks: int = 2) -> DataFrame:
    return spark.range(0, count, 1, tasks).selectExpr(
        "cast(id % 10 as string) key", "cast(id as string) value"
    )


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
@pytest.mark.parametrize("count", [10, 50_000])
def test_a_job_writes_every_row_once(
    spark: SparkSession, target: dict[str, str], delivery: str, count: int
) -> None:
    write(numbers(spark, count), target, delivery=delivery)
    assert Counter(values(target)) == Counter(str(number) for number in range(count))
