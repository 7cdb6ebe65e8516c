"""DataFrames written to topics by batch jobs and queries, read by confluent-kafka."""

import os
import shutil
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from barnabas.testing import EmbeddedBroker
from tests.spark.sink.spark_query import start_query
from tests.support.kafka.broker import ApacheKafka
from tests.support.kafka.jars import requires_java
from tests.support.topics import create_topic, read_committed, transactional_ids

pytestmark = pytest.mark.timeout(600)  # Spark on a machine with much else to do

Options = dict[str, str]


@pytest.fixture
def target(broker: EmbeddedBroker) -> Options:
    """Options that write to a topic of the test's own, with three partitions."""
    topic = broker.create_topic(partitions=3)
    return {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic}


def write(frame: DataFrame, options: Options, **more: str) -> None:
    frame.write.format("barnabas").options(**{**options, **more}).mode("append").save()


def messages(options: Options, topic: str | None = None) -> list[Any]:
    return read_committed(options["kafka.bootstrap.servers"], topic or options["topic"])


def values(options: Options) -> list[str]:
    return [message.value().decode() for message in messages(options)]


def numbers(spark: SparkSession, count: int, tasks: int = 2) -> DataFrame:
    return spark.range(0, count, 1, tasks).selectExpr(
        "cast(id % 10 as string) key", "cast(id as string) value"
    )


# -- jobs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delivery", "count"),
    [
        ("exactly-once", 10),  # handed to the driver
        ("exactly-once", 50_000),  # in transactions of the tasks
        ("at-least-once", 50_000),
    ],
)
def test_a_job_writes_every_row_once(spark: SparkSession, target: Options, delivery: str, count: int) -> None:
    write(numbers(spark, count), target, delivery=delivery)
    assert Counter(values(target)) == Counter(str(number) for number in range(count))


def test_a_job_writes_all_the_columns_that_sparks_own_sink_takes(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    topics = [broker.create_topic(partitions=3) for _ in range(2)]
    frame = spark.sql(
        f"""select 'k' key, cast('a' as binary) value, '{topics[0]}' topic, 2 partition,
                   array(named_struct('key', 'h', 'value', cast('x' as binary))) headers, 1 other
            union all select null, null, '{topics[1]}', null, null, 2"""
    )
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "kafka.compression.type": "lz4"}
    write(frame, options)
    (first,) = messages(options, topics[0])
    assert (first.key(), first.value(), first.partition(), first.headers()) == (b"k", b"a", 2, [("h", b"x")])
    (second,) = messages(options, topics[1])
    assert (second.key(), second.value(), second.headers()) == (None, None, None)


def test_a_batch_that_foreach_batch_writes_again_is_there_once(spark: SparkSession, target: Options) -> None:
    """Small enough to be handed to the driver, and in transactions of the tasks."""
    for number, handed_over in enumerate(("65536", "0", "65536")):
        rows = spark.range(10).selectExpr(f"cast({10 * number} + id as string) value")
        for _ in range(2):
            write(
                rows,
                target,
                sinkId="foreach",
                batchOf="query",
                batchNumber=str(number),
                handedOverBytes=handed_over,
            )
    assert sorted(map(int, values(target))) == list(range(30))
    write(
        spark.range(1).selectExpr("'new' value"), target, sinkId="foreach", batchOf="other", batchNumber="0"
    )
    assert len(values(target)) == 31
    with pytest.raises(PySparkException, match=r"'batchOf' \(its id\), 'batchNumber' and 'sinkId'"):
        write(spark.range(1).selectExpr("'x' value"), target, batchOf="query", batchNumber="3")


def test_a_job_that_fails_leaves_nothing(spark: SparkSession, target: Options) -> None:
    frame = numbers(spark, 30_000).selectExpr(
        "key", "if(value = '29999', raise_error('poison'), value) value"
    )
    with pytest.raises(PySparkException, match="poison"):
        write(frame, target, handedOverBytes="0")
    assert values(target) == []


@pytest.mark.parametrize(
    ("columns", "options", "text"),
    [
        ("id", {"topicc": "t"}, "unknown option 'topicc' of the sink; did you mean 'topic'"),
        ("9 partition", {}, "which has partitions 0 to 2"),  # only a task finds out
    ],
)
def test_write_error_is_reported_in_one_line(
    spark: SparkSession, target: Options, columns: str, options: Options, text: str
) -> None:
    with pytest.raises(PySparkException) as caught:
        write(spark.range(3).selectExpr("cast(id as string) value", columns), target, **options)
    assert text in str(caught.value)


# -- queries --------------------------------------------------------------------------------------------------


class Query:
    """Text files to a topic; every file is a batch."""

    def __init__(self, spark: SparkSession, folder: Path, target: Options) -> None:
        self._spark, self._folder, self._target = spark, folder, target
        self._files = 0
        (folder / "in").mkdir()

    def add(self, *lines: str) -> None:
        part = self._folder / f"{self._files:03}.txt"
        part.write_text("\n".join(lines) + "\n")
        part.rename(self._folder / "in" / part.name)
        self._files += 1

    @property
    def checkpoint(self) -> Path:
        return self._folder / "checkpoint"

    def run(self, expression: str = "value", **more: str) -> None:
        """To the end of the input, or until it fails."""
        start_query(self._spark, self._folder, {**self._target, **more}, expression).awaitTermination()

    def forget_last_commit(self) -> None:
        """As if the driver had died after the sink's commit and before Spark's own."""
        commits = self.checkpoint / "commits"
        last = max(int(file.name) for file in commits.iterdir() if file.name.isdecimal())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path, target: Options) -> Query:
    return Query(spark, tmp_path, target)


def check_that_no_batch_is_written_twice(query: Query, target: Options, **options: str) -> None:
    query.add("a1", "a2", "a3")
    query.add("b1", "b2", "b3")
    query.run(**options)
    query.forget_last_commit()
    query.add("c1", "c2")
    query.run(**options)
    assert sorted(values(target)) == ["a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2"]


@pytest.mark.parametrize("handed_over", ["0", "65536"], ids=["transactions", "handed over"])
def test_query_continues_at_its_position_and_writes_no_batch_twice(
    query: Query, target: Options, handed_over: str
) -> None:
    check_that_no_batch_is_written_twice(query, target, handedOverBytes=handed_over)


@requires_java
def test_jobs_and_queries_write_to_apache_kafka_once(
    spark: SparkSession, kafka: ApacheKafka, tmp_path: Path
) -> None:
    target = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    for topic in ("by-a-job", "by-a-query"):
        create_topic(kafka.bootstrap_servers, topic, partitions=3)
    by_job, by_query = {**target, "topic": "by-a-job"}, {**target, "topic": "by-a-query"}
    write(numbers(spark, 50_000), by_job)
    assert Counter(values(by_job)) == Counter(str(number) for number in range(50_000))
    check_that_no_batch_is_written_twice(Query(spark, tmp_path, by_query), by_query, handedOverBytes="0")


def test_query_with_a_new_checkpoint_at_an_old_path_starts_over(query: Query, target: Options) -> None:
    query.add("a")
    query.run()
    shutil.rmtree(query.checkpoint)
    query.run()
    assert values(target) == ["a", "a"]


def test_a_query_that_comes_back_after_another_one_of_its_sink_id_writes_no_batch_twice(
    spark: SparkSession, query: Query, target: Options, tmp_path: Path
) -> None:
    (tmp_path / "another").mkdir()
    another = Query(spark, tmp_path / "another", target)
    query.add("a1", "a2")
    another.add("b1", "b2")
    for one in (query, another):
        one.run(sinkId=target["topic"])
    query.forget_last_commit()
    query.add("a3")
    query.run(sinkId=target["topic"])
    assert sorted(values(target)) == ["a1", "a2", "a3", "b1", "b2"]


def test_first_of_two_queries_that_share_a_sink_without_checkpoint_stops_with_an_error(
    spark: SparkSession, target: Options, tmp_path: Path
) -> None:
    """Their checkpoints are Spark's then, and the sink's processes cannot distinguish them."""
    writers = {}
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        lines = spark.readStream.schema("value string").text(f"file://{tmp_path / name}")
        writer = lines.writeStream.format("barnabas").options(**target, sinkId=target["topic"])
        writers[name] = writer.queryName(f"{target['topic']}-{name}").trigger(
            processingTime="100 milliseconds"
        )

    def add(line: str) -> None:
        part = tmp_path / f"{line}.txt"
        part.write_text(f"{line}\n")
        part.rename(tmp_path / line[0] / part.name)

    spark.conf.set("spark.sql.streaming.checkpointLocation", f"file://{tmp_path}/checkpoints")
    running = []
    try:
        for name in ("a", "b", "a"):
            running.append(writers[name].start())
            add(f"{name}{len(running)}")
            running[-1].processAllAvailable()
            if len(running) == 2:
                add("a-late")
                with pytest.raises(
                    PySparkException, match="another query with the same sinkId, has taken over"
                ):
                    running[0].processAllAvailable()
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
        for query in running:
            query.stop()
    assert sorted(values(target)) == ["a-late", "a1", "a3", "b2"]


def test_a_query_needs_no_new_transactional_ids_for_every_batch(query: Query, target: Options) -> None:
    """Brokers keep them, and their producers, for days."""
    batches = 10
    for number in range(batches):
        query.add(*(f"{number}-{row}" for row in range(10)))
    query.run(handedOverBytes="0", sinkId=target["topic"])
    assert len(values(target)) == 10 * batches
    names = transactional_ids(target["kafka.bootstrap.servers"], target["topic"])
    names.remove(f"{target['topic']}-driver")
    assert 2 <= len(names) <= batches  # of two tasks each; which of its workers take them is Spark's affair


def test_a_worker_that_is_killed_in_a_task_leaves_nothing_behind(
    spark: SparkSession, query: Query, target: Options, tmp_path: Path
) -> None:
    flag = tmp_path / "poison"
    flag.touch()

    def die(value: str) -> str:
        if value == "b2" and flag.exists():
            flag.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    spark.udf.register("die", die)
    query.add("a1", "a2")
    query.add("b1", "b2", "b3")
    with pytest.raises(PySparkException):
        query.run("die(value)", handedOverBytes="0")
    query.run("die(value)", handedOverBytes="0")
    assert sorted(values(target)) == ["a1", "a2", "b1", "b2", "b3"]
