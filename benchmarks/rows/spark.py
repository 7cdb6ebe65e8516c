"""Reading with Spark: our data source compared with Spark's Kafka connector, one session, the same topic of one broker.

Ten million events of 100 bytes in six partitions. Both formats have the same Spark settings and are measured in
alternating rounds. The cost of a first query (workers, compilers, numba's cache) is in the warm-up of a row;
`spark-cold` shows it.
"""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's convention

from benchmarks.clients.percentiles import percentile
from benchmarks.loads import client, client_command
from benchmarks.model import BARNABAS, Figures, Metric, Row, Subject, Target
from benchmarks.rows.common import RATE
from benchmarks.session import Session
from benchmarks.subjects import spark
from benchmarks.subjects.brokers import Broker
from benchmarks.subjects.spark import CONNECTOR, OURS, THEIRS
from tests.support.programs import PROJECT_ROOT

EVENTS, PARTITIONS = 10_000_000, 6
VALUE_ONLY = "Barnabas, value only"
TYPED = "Barnabas, value.format=json"
SCHEMA = "user STRING, page STRING, ms BIGINT"
MICRO_BATCHES = 6  # the first one is not counted
SECONDS = Metric("seconds", "s", digits=1)
P50, P99 = Metric("p50_ms", "ms p50"), Metric("p99_ms", "ms p99")
LATENCY_RATE, WARM_SECONDS, MEASURED_SECONDS = 1000, 30, 60

Query = Callable[[Broker, str], None]


def fill_events(session: Session, label: str, records: int, partitions: int, codec: str = "none") -> None:
    """Create a topic of events and remember it under the label."""
    broker = session.broker("barnabas")
    topic = session.fresh_topic(broker, partitions)
    written = client(
        "event_fill", "--port", broker.port, "--topic", topic, "--partitions", partitions,
        "--records", session.scaled(records), "--codec", codec,
    )  # fmt: skip
    session.keep(broker, label, topic)
    session.keep(broker, f"{label}-count", str(int(written["records"])))


def prepare(codec: str) -> Callable[[Session], None]:
    return lambda session: fill_events(session, "events", EVENTS, PARTITIONS, codec)


def timed(name: str, query: Query, label: str = "events") -> Subject:
    """Records per second of a whole query, from plan to result."""

    def measure(session: Session) -> Figures:
        broker = session.broker("barnabas")
        began = time.perf_counter()
        query(broker, session.kept(broker, label))
        return {"rate": int(session.kept(broker, f"{label}-count")) / (time.perf_counter() - began)}

    return Subject(name, measure)


def count(source: str, **options: str) -> Query:
    def query(broker: Broker, topic: str) -> None:
        frame = spark.table(source, broker.bootstrap, topic, **options)
        found = frame.agg(F.count("*"), F.sum(F.length("value"))).first()
        assert found is not None
        assert found[0] > 0

    return query


def group_by_page(events: Callable[[Broker, str], DataFrame]) -> Query:
    def query(broker: Broker, topic: str) -> None:
        grouped = events(broker, topic).groupBy("page").agg(F.count("*"), F.avg("ms")).collect()
        assert len(grouped) > 1

    return query


def parsed_by_spark(source: str, **options: str) -> Callable[[Broker, str], DataFrame]:
    def events(broker: Broker, topic: str) -> DataFrame:
        frame = spark.table(source, broker.bootstrap, topic, **options)
        parsed = F.from_json(F.col("value").cast("string"), SCHEMA).alias("event")
        return frame.select(parsed).select("event.page", "event.ms")

    return events


def parsed_by_source(broker: Broker, topic: str) -> DataFrame:
    options = {"value__format": "json", "value__schema": SCHEMA, "columns": "page,ms"}
    return spark.table(OURS, broker.bootstrap, topic, **options)


def to_parquet(source: str, **options: str) -> Query:
    def query(broker: Broker, topic: str) -> None:
        folder = Path(tempfile.mkdtemp(prefix="barnabas-parquet-"))
        try:
            frame = spark.table(source, broker.bootstrap, topic, **options)
            frame.select("value", "timestamp").write.mode("overwrite").parquet(str(folder))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    return query


def streamed(name: str, source: str, **options: str) -> Subject:
    """Rate of the micro-batches according to Spark's progress, without the first."""

    def measure(session: Session) -> Figures:
        broker = session.broker("barnabas")
        size = int(session.kept(broker, "events-count")) // MICRO_BATCHES
        limit = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(size), **options}
        frame = spark.stream(source, broker.bootstrap, session.kept(broker, "events"), **limit)
        checkpoint = tempfile.mkdtemp(prefix="barnabas-stream-")
        query = (
            frame.select(F.length("value"))
            .writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
            batches = [progress for progress in query.recentProgress if progress["numInputRows"]][1:]
        finally:
            query.stop()
            shutil.rmtree(checkpoint, ignore_errors=True)
        rows = sum(progress["numInputRows"] for progress in batches)
        return {"rate": rows / sum(progress["durationMs"]["triggerExecution"] for progress in batches) * 1000}

    return Subject(name, measure)


def latency(name: str, source: str, **options: str) -> Subject:
    """Latency from producing a record to the result of its micro-batch, at 1,000 records a second."""

    def measure(session: Session) -> Figures:
        broker = session.broker("barnabas")
        topic = session.fresh_topic(broker, PARTITIONS)
        warm, measured = session.scaled(WARM_SECONDS), session.scaled(MEASURED_SECONDS)
        samples: list[float] = []
        began = time.time()

        def take(batch: DataFrame, number: int) -> None:
            sent = [int(row.value) for row in batch.select("value").collect()]
            now = time.time_ns()
            if now / 1e9 > began + warm:
                samples.extend((now - timestamp) / 1e9 for timestamp in sent)

        checkpoint = tempfile.mkdtemp(prefix="barnabas-latency-")
        frame = spark.stream(source, broker.bootstrap, topic, startingOffsets="earliest", **options)
        query = frame.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint).start()
        command = client_command(
            "timed_events", "--bootstrap", broker.bootstrap, "--topic", topic,
            "--rate", LATENCY_RATE, "--seconds", warm + measured,
        )  # fmt: skip
        try:
            subprocess.run(command, cwd=PROJECT_ROOT, check=True, capture_output=True)
        finally:
            query.stop()
            shutil.rmtree(checkpoint, ignore_errors=True)
        if not samples:
            raise RuntimeError("no micro-batch came after the warm-up")
        return {"p50_ms": percentile(samples, 0.5) * 1000, "p99_ms": percentile(samples, 0.99) * 1000}

    return Subject(name, measure)


def cold(name: str, source: str) -> Subject:
    """First query of a new process (clients/spark_cold.py): workers, and the code they load."""

    def measure(session: Session) -> Figures:
        broker = session.broker("barnabas")
        topic = session.kept(broker, "events")
        return client("spark_cold", "--source", source, "--bootstrap", broker.bootstrap, "--topic", topic)

    return Subject(name, measure)


def faster(limit: float, subject: str = BARNABAS) -> Target:
    return Target("rate", ">=", limit, relative_to=CONNECTOR, subject=subject)


def batch_row(name: str, title: str, codec: str) -> Row:
    return Row(
        name,
        title,
        (
            timed(CONNECTOR, count(THEIRS)),
            timed(BARNABAS, count(OURS)),
            timed(VALUE_ONLY, count(OURS, columns="value")),
        ),
        (RATE,),
        (faster(2.5), faster(3.0, VALUE_ONLY)),
        prepare=prepare(codec),
    )


ROWS = (
    batch_row("spark-batch", "Spark: count and length of 10 M records", "none"),
    batch_row("spark-batch-lz4", "Spark: count and length of 10 M records, lz4", "lz4"),
    Row(
        "spark-stream",
        "Spark: the same as a stream",
        (
            streamed(CONNECTOR, THEIRS),
            streamed(BARNABAS, OURS),
            streamed(VALUE_ONLY, OURS, columns="value"),
        ),
        (RATE,),
        (faster(1.8),),
        prepare=prepare("none"),
    ),
    Row(
        "spark-json",
        "Spark: JSON parsed and grouped",
        (
            timed(CONNECTOR, group_by_page(parsed_by_spark(THEIRS))),
            timed(BARNABAS, group_by_page(parsed_by_spark(OURS, columns="value"))),
            timed(TYPED, group_by_page(parsed_by_source)),
        ),
        (RATE,),
        (faster(1.5), faster(3.0, TYPED)),
        prepare=prepare("none"),
    ),
    Row(
        "spark-parquet",
        "Spark: topic to Parquet",
        (
            timed(CONNECTOR, to_parquet(THEIRS)),
            timed(BARNABAS, to_parquet(OURS, columns="value,timestamp")),
        ),
        (RATE,),
        (faster(1.5),),
        prepare=prepare("none"),
    ),
    Row(
        "spark-latency",
        "Spark: produce to result at 1,000/s",
        (latency(CONNECTOR, THEIRS), latency(BARNABAS, OURS, columns="value")),
        (P50, P99),
        (
            Target("p50_ms", "<=", 1.0, relative_to=CONNECTOR),
            Target("p99_ms", "<=", 1.0, relative_to=CONNECTOR),
        ),
        warm_up=False,  # each measurement includes one
    ),
    Row(
        "spark-cold",
        "Spark: first query of a new process",
        (cold(CONNECTOR, THEIRS), cold(BARNABAS, OURS)),
        (SECONDS,),
        prepare=prepare("none"),
        warm_up=False,
        once=True,
    ),
)
