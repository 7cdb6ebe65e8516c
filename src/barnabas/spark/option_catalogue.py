"""Every option of `format("barnabas")` except `kafka.*`, which is in `client_settings.py`."""

from __future__ import annotations

from typing import Literal, NamedTuple

Side = Literal["source", "sink"]
SOURCE: tuple[Side, ...] = ("source",)
SINK: tuple[Side, ...] = ("sink",)


class Option(NamedTuple):
    name: str
    sides: tuple[Side, ...]
    meaning: str
    default: str | None = None


OPTIONS: tuple[Option, ...] = (
    # Which records.
    Option("subscribe", SOURCE, "Topics, separated by commas."),
    Option(
        "subscribePattern",
        SOURCE,
        "A regular expression (RE2) that is found in the names of topics: `orders` finds `old-orders` too, `^orders$` "
        "does not. Kafka's internal topics are left out.",
    ),
    Option("assign", SOURCE, 'Partitions as JSON: `{"orders":[0,1]}`.'),
    Option(
        "startingOffsets",
        SOURCE,
        (
            '`earliest`, `latest`, or JSON: `{"orders":{"0":23,"1":-2}}` (-2 earliest, -1 latest). A batch read '
            "starts at `earliest`, a stream at `latest`."
        ),
    ),
    Option(
        "startingOffsetsByTimestamp",
        SOURCE,
        "Milliseconds by partition, as JSON; comes before `startingOffsets`.",
    ),
    Option("startingTimestamp", SOURCE, "Milliseconds, for all partitions; comes before both others."),
    Option(
        "startingOffsetsByTimestampStrategy",
        SOURCE,
        "What to do when no record is as new as the timestamp: `error` or `latest`.",
        "error",
    ),
    Option("endingOffsets", SOURCE, "As `startingOffsets`, for batch reads.", "latest"),
    Option("endingOffsetsByTimestamp", SOURCE, "As `startingOffsetsByTimestamp`, for batch reads."),
    Option("endingTimestamp", SOURCE, "As `startingTimestamp`, for batch reads."),
    Option(
        "failOnDataLoss",
        SOURCE,
        "Fail the query if records were deleted before they were read, or a topic was deleted.",
        "true",
    ),
    # From an object store, without a broker.
    Option(
        "remote",
        SOURCE,
        "An object store with tiered topics, `s3://BUCKET/PREFIX`, `gs://...`, `az://...` or `file:///FOLDER`: it is "
        "read instead of brokers. `remote.NAME` is option NAME of the store.",
    ),
    Option(
        "clusterId", SOURCE, "The cluster whose topics are meant, where an object store has those of several."
    ),
    Option("snapshot", SOURCE, "A snapshot in the object store, for batch reads: topics as they were then."),
    # How much at a time.
    Option(
        "maxOffsetsPerTrigger",
        SOURCE,
        "The most offsets of one micro-batch, shared out in proportion to what partitions hold.",
    ),
    Option("minOffsetsPerTrigger", SOURCE, "The fewest offsets that are worth a micro-batch."),
    Option("maxTriggerDelay", SOURCE, "How long `minOffsetsPerTrigger` may hold records back.", "15m"),
    Option("minPartitions", SOURCE, "The fewest Spark tasks: large partitions are divided."),
    Option("maxRecordsPerPartition", SOURCE, "The most offsets of one Spark task."),
    Option(
        "sharedTaskRecords",
        SOURCE,
        "Partitions share a Spark task up to this many offsets together, up to five times as many where "
        "enough tasks are left; 0 gives each its own.",
        "100000",
    ),
    # What rows look like.
    Option("includeHeaders", (*SOURCE, *SINK), "Whether there is a column `headers`.", "false"),
    Option(
        "columns",
        SOURCE,
        "The columns to decode and to ship, separated by commas: what is left out costs nothing.",
    ),
    Option(
        "value.format",
        SOURCE,
        "`json`, `avro`, `protobuf`, `csv` or `string`: the value's fields become typed columns.",
    ),
    Option(
        "value.schema",
        SOURCE,
        "The fields of the value as DDL: `user STRING, amount DOUBLE`; or give it by `.schema(...)`.",
    ),
    Option("value.avro.schema", SOURCE, "The Avro schema that values were written with, as JSON."),
    Option(
        "value.registry",
        SOURCE,
        "The URL of a schema registry: values of `avro`, `protobuf` and `json` begin with the id of the schema that "
        "they were written with. Without `value.avro.schema` columns are those of the newest schema of the subject "
        "TOPIC-value.",
    ),
    Option(
        "value.protobuf.message",
        SOURCE,
        "The full name of the message that values are, `shop.Order`; by default the first one of the schema.",
    ),
    Option("value.csv.delimiter", SOURCE, "What separates the fields of a CSV value.", ","),
    Option(
        "mode",
        SOURCE,
        (
            "What becomes of a value that does not fit: `PERMISSIVE` (columns are null), `DROPMALFORMED` or "
            "`FAILFAST`."
        ),
        "PERMISSIVE",
    ),
    Option(
        "columnNameOfCorruptRecord",
        SOURCE,
        "The column that takes a value that does not fit, when the schema names it: BINARY, or STRING as text.",
        "_corrupt_record",
    ),
    # How it talks to the brokers.
    Option(
        "groupIdPrefix",
        SOURCE,
        "How the name of the group begins that progress is committed to.",
        "spark-barnabas",
    ),
    Option(
        "commitProgress",
        SOURCE,
        (
            "Whether progress is committed to a consumer group after each micro-batch, for lag tools. Never used "
            "for a restart."
        ),
        "true",
    ),
    Option(
        "kafkaConsumer.pollTimeoutMs",
        SOURCE,
        "How long a task waits for records that must be there.",
        "120000",
    ),
    Option(
        "fetchOffset.numRetries",
        SOURCE,
        "How often the driver asks for offsets before it gives up on an answer that goes backwards.",
        "3",
    ),
    Option("fetchOffset.retryIntervalMs", SOURCE, "How long it waits between two of them.", "1000"),
    # The sink.
    Option("topic", SINK, "The topic that rows without a column `topic` go to."),
    Option("checkpointLocation", SINK, "Spark's own; the sink's identity is made from it."),
    Option("sinkId", SINK, "The sink's identity, where a checkpoint's location is not to be it."),
    Option(
        "batchOf",
        SINK,
        "For a job in `foreachBatch`: the id of the query whose batch it writes; with `batchNumber` and `sinkId` the "
        "batch is written once, however often Spark repeats it.",
    ),
    Option("batchNumber", SINK, "The number of that batch."),
    Option(
        "delivery",
        SINK,
        "`exactly-once`, or `at-least-once` for brokers without transactions.",
        "exactly-once",
    ),
    Option(
        "includeTimestamp",
        SINK,
        "Whether a column `timestamp` is the records' time, not the present.",
        "false",
    ),
    Option(
        "handedOverBytes",
        SINK,
        "A task with no more than so many bytes hands its rows to the driver, which writes them with its decision.",
        "65536",
    ),
    Option(
        "tornBatch",
        SINK,
        "What to do about a batch of which the broker has aborted a part: `fail`, `skip` it, or `rerun` it whole.",
        "fail",
    ),
)
