"""Lines become entries: those of a stack trace join the line above them, and entries are taken apart and masked."""

from collections.abc import Iterator
from typing import Any

from pyspark import pipelines as dp
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StringType, StructField, StructType

from barnabas.pipelines.connection import broker_options

spark = SparkSession.active()

BROKER = broker_options(spark)
BEGINS = r"^\d{4}-\d\d-\d\dT[\d:.]+Z |^%"
FORM = r"(?s)^(\S+) (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) (.*)$"
MASKS = {
    r"[\w.+-]+@[\w-]+\.[\w.]+": "<email>",
    r"\b\d{4}[ -]?\d{4}[ -]?\d{4}[ -]?\d{4}\b": "<card>",
    r"\b\d{1,3}(\.\d{1,3}){3}\b": "<address>",
}

JOINED = StructType(
    [
        StructField("source", StringType()),
        StructField("partition", LongType()),
        StructField("offset", LongType()),
        StructField("entry", StringType()),
    ]
)


def joined_row(key: Any, pending: Any) -> Row:
    return Row(source=key[0], partition=pending[0], offset=pending[1], entry=pending[2])


class JoinLines(StatefulProcessor):
    """Keeps the entry of each file that may still go on, with the offset of its first line. It is over when the next
    one begins. A timer could end it sooner, but a query with timers of the clock never ends when it is run once."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.pending = handle.getValueState("pending", "partition LONG, offset LONG, entry STRING")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        pending = self.pending.get() if self.pending.exists() else None
        # The lines of a file are in order in its partition, not in what a shuffle hands over.
        for row in sorted(rows, key=lambda row: row["offset"]):
            if pending is None or row["begins"]:
                if pending is not None:
                    yield joined_row(key, pending)
                pending = (row["partition"], row["offset"], row["line"])
            else:
                pending = (pending[0], pending[1], f"{pending[2]}\n{row['line']}")
        if pending is not None:
            self.pending.update(pending)

    def close(self) -> None:
        pass


def masked(text: Column) -> Column:
    for pattern, name in MASKS.items():
        text = F.regexp_replace(text, pattern, name)
    return text


def part(number: int) -> Column:
    """A part of an entry; NULL if it has not the form of one."""
    return F.nullif(F.regexp_extract("entry", FORM, number), F.lit(""))


def joined_lines() -> DataFrame:
    raw = (
        spark.readStream.format("barnabas")
        .options(**BROKER)
        .option("subscribe", spark.conf.get("logs.topic"))
        .option("kafka.isolation.level", "read_committed")
        .option("startingOffsets", "earliest")
        .option("columns", "key,value,partition,offset")
        .load()
    )
    line = F.col("value").cast("string")
    lines = raw.select(
        F.coalesce(F.col("key").cast("string"), F.lit("unknown")).alias("source"),
        F.col("partition").cast("long").alias("partition"),
        "offset",
        line.alias("line"),
        line.rlike(BEGINS).alias("begins"),
    )
    return lines.groupBy("source").transformWithState(JoinLines(), JOINED, "Append", "None")


# Not within the definition of the view: there Spark's own runner lets nobody ask for columns, as the join does.
JOINED_LINES = joined_lines()


@dp.temporary_view
def entries() -> DataFrame:
    return JOINED_LINES.select(
        F.lit(spark.conf.get("logs.topic")).alias("topic"),
        "partition",
        "offset",
        "source",
        F.try_to_timestamp(part(1)).alias("time"),
        part(2).alias("level"),
        masked(part(3)).alias("message"),
        masked(F.col("entry")).alias("value"),
    )


dp.create_sink("levels", "barnabas", BROKER)


@dp.append_flow(name="by_level", target="levels")
def by_level() -> DataFrame:
    """Each entry to the topic of its level, as JSON, keyed by the file that it is of."""
    row = F.struct("time", "source", "level", "message", "partition", "offset")
    # What is no entry has gone to the dead letters; Spark's own runner does not read that rule, and leaves it out.
    found = spark.readStream.table("entries").where("level IS NOT NULL AND time IS NOT NULL")
    return found.select(
        F.concat(F.lit("logs."), F.lower("level")).alias("topic"),
        F.col("source").alias("key"),
        F.to_json(row).alias("value"),
    )
