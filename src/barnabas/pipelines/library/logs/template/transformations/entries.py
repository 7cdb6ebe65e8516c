"""Join log lines into entries: lines of a stack trace belong to the line above. Entries are parsed and masked.

The tables below define the log format: adapt them to your applications.
"""

from collections.abc import Iterator
from typing import Any

from pyspark import pipelines as dp
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from barnabas.durations import seconds_of
from barnabas.pipelines.connection import broker_options
from barnabas.pipelines.log_lines import Entry, Joiner, Letter, line_rules
from barnabas.pipelines.quality.letters import letter_headers

spark = SparkSession.active()

BROKER = broker_options(spark)
TOPIC = spark.conf.get("logs.topic")

# A line with a time and a level begins an entry. Patterns are Python's, from the beginning of a line on.
TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d([.,]\d+)?( ?(Z|[+-]\d\d:?\d\d))?"
LEVELS = {
    "TRACE": "TRACE",
    "DEBUG": "DEBUG",
    "INFO": "INFO",
    "WARN": "WARN",
    "WARNING": "WARN",
    "ERROR": "ERROR",
    "FATAL": "FATAL",
    "CRITICAL": "FATAL",
}
CONTEXT = r"\[[^\]]*\]|- \S+ -"  # [main], as log4j writes it; - a.logger -, as Python does
BEGINS = (
    rf"\[?(?P<time>{TIME})\]?\s+((?P<context>{CONTEXT})\s+)?"
    rf"\[?(?P<level>{'|'.join(LEVELS)})\]?:?(?!\S)(?:[ \t]+-(?!\S))?[ \t]*(?P<message>.*)"
)
# A line that matches one of these continues the entry above it. Any other line goes to the dead letters.
CONTINUES = {
    "blank": r"\s*$",
    "indented": r"\s",
    "a frame, as Java writes it": r"at \S",
    "what caused an exception": r"(Caused by|Suppressed): ",
    "frames that are left out": r"\.\.\. \d+ (more|common frames omitted)",
    "an uncaught exception": r'Exception in thread "',
    "a trace, as Python writes it": r"Traceback \(",
    "a frame, as Python writes it": r'File "',
    "between two traces of Python": r"(During handling of the|The) above exception",
    "the name of an error": r"\w[\w.$]*(Error|Exception|Interrupt|Exit)(:|$)",
    "a panic of Go": r"panic: |goroutine \d+ \[",
    "closing brackets": r"[)\]}]+[,;]?\s*$",
}
# Personal data in entries and dead letters, and its replacement.
MASKS = {
    r"(?<![\w.+-])[\w.+-]+@[\w-]+(\.[\w-]+)+": "<email>",
    r"\b\d{4}[ -]?\d{4}[ -]?\d{4}[ -]?\d{4}\b": "<card>",
    r"\b\d{1,3}(\.\d{1,3}){3}\b": "<address>",
}
# A key may be as large as a record, and an entry has it twice, once as JSON: of a longer one this much is shown.
MAX_SOURCE_LENGTH = 1000  # characters
RULES = line_rules(spark.conf.getAll, begins=BEGINS, levels=LEVELS, continues=CONTINUES, masks=MASKS)
IDLE_MS = int(seconds_of(spark.conf.getAll.get("logs.idle", "30 seconds")) * 1000)

PENDING = (
    "offset LONG, time STRING, level STRING, message STRING, lines LONG, omitted_lines LONG, omitted_bytes LONG, "
    "seen LONG, timer LONG"
)
# Either an entry, or a record that belongs to none: then `problem` says why, and the record is there as it came.
JOINED = (
    "source STRING, time STRING, level STRING, message STRING, lines LONG, omitted_lines LONG, omitted_bytes LONG, "
    "problem STRING, masked LONG, _topic STRING, _partition INT, _offset LONG, _key BINARY, _value BINARY, "
    "_headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)


class JoinLines(StatefulProcessor):
    """Keeps the open entry of each file. An entry ends when the next one begins, or when its file had no new lines for
    `logs.idle`, so that the last entry of a terminated program is written too."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.state = handle.getValueState("pending", PENDING)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        entry, _, timer = self.kept()
        joiner = Joiner(RULES, entry)
        # A partition keeps the order of a file's lines; a shuffle does not.
        for row in sorted(rows, key=lambda row: row["_offset"]):
            for found in joiner.take(row["_offset"], row["_value"]):
                yield entry_row(key, found) if isinstance(found, Entry) else letter_row(found, row)
        self.keep(joiner.pending, timerValues.getCurrentProcessingTimeInMs(), timer)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        entry, seen, timer = self.kept()
        if entry is None or timer != expiredTimerInfo.getExpiryTimeInMs():
            return  # it was set for an entry that has ended since
        if timerValues.getCurrentProcessingTimeInMs() < seen + IDLE_MS:
            self.keep(entry, seen, None)
        else:
            self.state.clear()
            yield entry_row(key, entry)

    def kept(self) -> tuple[Entry | None, int, int | None]:
        """The entry, when the last line of its file came, and the one timer that counts."""
        if not self.state.exists():
            return None, 0, None
        kept: Any = self.state.get()
        *entry, seen, timer = kept
        return Entry(*entry), seen, timer

    def keep(self, entry: Entry | None, seen: int, timer: int | None) -> None:
        if entry is None:
            self.state.clear()
            return
        if timer is None:
            timer = seen + IDLE_MS
            self.handle.registerTimer(timer)
        self.state.update((*entry, seen, timer))

    def close(self) -> None:
        pass


def entry_row(key: Any, entry: Entry) -> Row:
    source, topic, partition = key
    facts = entry._asdict()
    return Row(source=source, _topic=topic, _partition=partition, _offset=facts.pop("offset"), **facts)


def letter_row(letter: Letter, record: Row) -> Row:
    found = {"_value": letter.value, "problem": letter.problem, "masked": letter.masked}
    return Row(**{**record.asDict(), **found})


def joined_lines() -> DataFrame:
    records = (
        spark.readStream.format("barnabas")
        .options(**BROKER)
        .option("subscribe", TOPIC)
        .option("kafka.isolation.level", "read_committed")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", spark.conf.get("logs.batch.lines"))
        .option("columns", "topic,partition,offset,key,value,headers")
        .load()
    )
    lines = records.select(
        source_of(F.col("key")).alias("source"),
        *(F.col(name).alias(f"_{name}") for name in ("topic", "partition", "offset", "key", "value")),
        readable(F.col("headers")).alias("_headers"),
    )
    files = lines.groupBy("source", "_topic", "_partition")
    return files.transformWithState(JoinLines(), JOINED, "Append", "ProcessingTime")


def source_of(key: Column) -> Column:
    """File of a line, from the record key. Keys that are not UTF-8 are shown in hexadecimal; long keys are truncated
    and get a digest, so that files whose keys have a common prefix stay separate."""
    text = key.cast("string")
    shown = F.when(F.is_valid_utf8(text), text).otherwise(F.concat(F.lit("0x"), F.hex(key)))
    digest = F.substring(F.sha2(key, 256), 1, 16)
    cut = F.concat(F.substring(shown, 1, MAX_SOURCE_LENGTH), F.lit("... sha256:"), digest)
    source = F.when(F.length(shown) > MAX_SOURCE_LENGTH, cut).otherwise(shown)
    return F.coalesce(source, F.lit("unknown"))


def readable(headers: Column) -> Column:
    """Replace invalid UTF-8 in header names: Kafka does not validate them, and Python would fail to decode them."""
    return F.transform(
        headers, lambda one: F.struct(F.make_valid_utf8(one["key"]).alias("key"), one["value"].alias("value"))
    )


# Outside of the view's definition: within it, Spark's own runner does not allow access to columns, which the join
# needs.
JOINED_LINES = joined_lines()


@dp.temporary_view
def entries() -> DataFrame:
    """Entries, and records outside of entries, which have a `problem`. Times without UTC offset are in
    Spark's time zone."""
    return JOINED_LINES.withColumn("time", F.to_timestamp("time"))


dp.create_sink("topics", "barnabas", BROKER)


@dp.append_flow(name="by_level", target="topics")
def by_level() -> DataFrame:
    """Write entries to the topic of their level, as JSON, keyed by file, and other records to the dead letters. One
    query with one state does both, so that each line is either part of an entry or a dead letter."""
    is_entry = F.col("problem").isNull()
    row = F.struct(
        "time", "source", "level", "message", "lines", "omitted_lines", "omitted_bytes",
        F.col("_partition").alias("partition"), F.col("_offset").alias("offset"),
    )  # fmt: skip
    record = {part: F.col(f"_{part}") for part in ("headers", "topic", "partition", "offset")}
    masked = F.nullif("masked", F.lit(0))
    headers = letter_headers("entries", F.col("problem"), record, masked=masked)
    return spark.readStream.table("entries").select(
        F.when(is_entry, F.concat(F.lit("logs."), F.lower("level")))
        .otherwise(F.lit(f"{TOPIC}.dead-letters"))
        .alias("topic"),
        F.when(is_entry, F.col("source").cast("binary")).otherwise(F.col("_key")).alias("key"),
        F.when(is_entry, F.to_json(row).cast("binary")).otherwise(F.col("_value")).alias("value"),
        F.when(~is_entry, headers).alias("headers"),
    )
