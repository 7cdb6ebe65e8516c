"""Writing with Spark: a DataFrame to a topic, our sink beside Spark's own Kafka connector, one session, one broker.

Rows of 100 bytes with a key, made by Spark itself, to six partitions. Spark's connector promises at least once; so does
the first of ours, and the second writes exactly once, as a job and as the micro-batches of a query.
"""

import shutil
import tempfile
import time
from collections.abc import Callable

from pyspark.sql import DataFrame

from benchmarks.model import BARNABAS, Figures, Metric, Row, Subject, Target
from benchmarks.rows.common import RATE
from benchmarks.session import Session
from benchmarks.subjects import spark
from benchmarks.subjects.spark import CONNECTOR, OURS, THEIRS

ROWS_WRITTEN, PARTITIONS, TASKS = 4_000_000, 6, 2
EXACTLY_ONCE = "Barnabas, exactly once"
SMALL_BATCHES, SMALL_ROWS = 20, 200
BATCH_MS = Metric("batch_ms", "ms per micro-batch")


def rows(count: int) -> DataFrame:
    """The value is 100 bytes: what a row costs Spark itself is the same for every sink."""
    numbers = spark.session().range(0, count, 1, TASKS)
    return numbers.selectExpr("cast(id as string) key", "rpad(cast(id as string), 100, 'x') value")


def job(name: str, sink: str, **options: str) -> Subject:
    def measure(session: Session) -> Figures:
        broker = session.broker("barnabas")
        topic, count = session.fresh_topic(broker, PARTITIONS), session.scaled(ROWS_WRITTEN)
        given = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic, **options}
        began = time.perf_counter()
        rows(count).write.format(sink).options(**given).mode("append").save()
        return {"rate": count / (time.perf_counter() - began)}

    return Subject(name, measure)


def query(name: str, sink: str, **options: str) -> Subject:
    """How long micro-batches of a few rows take; the first of them starts workers and is not counted."""

    def measure(session: Session) -> Figures:
        broker = session.broker("barnabas")
        topic = session.fresh_topic(broker, PARTITIONS)
        folder = tempfile.mkdtemp(prefix="barnabas-sink-")
        given = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic, **options}
        try:
            return {"batch_ms": _median_batch(folder, sink, given)}
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    return Subject(name, measure)


def _median_batch(folder: str, sink: str, options: dict[str, str]) -> float:
    for number in range(SMALL_BATCHES):
        frame = rows(SMALL_ROWS).selectExpr("value").coalesce(1)
        frame.write.mode("append").option("compression", "none").text(f"{folder}/in/{number}")
    stream = spark.session().readStream.schema("value string").option("maxFilesPerTrigger", 1)
    written = (
        stream.text(f"{folder}/in/*")
        .writeStream.format(sink)
        .options(checkpointLocation=f"{folder}/checkpoint", **options)
        .trigger(availableNow=True)
        .start()
    )
    written.awaitTermination()
    times = [one["durationMs"]["addBatch"] for one in written.recentProgress if one["numInputRows"]][1:]
    return float(sorted(times)[len(times) // 2])


def faster(limit: float, subject: str = BARNABAS) -> Target:
    return Target("rate", ">=", limit, relative_to=CONNECTOR, subject=subject)


Make = Callable[..., Subject]


def subjects(make: Make) -> tuple[Subject, ...]:
    return (
        make(CONNECTOR, THEIRS),
        make(BARNABAS, OURS, delivery="at-least-once"),
        make(EXACTLY_ONCE, OURS),
    )


ROWS = (
    Row(
        "spark-write",
        "Spark: DataFrame of 4 M rows to a topic",
        subjects(job),
        (RATE,),
        (faster(1.2),),
    ),
    Row(
        "spark-write-small",
        "Spark: micro-batches of 200 rows to a topic",
        subjects(query),
        (BATCH_MS,),
    ),
)
