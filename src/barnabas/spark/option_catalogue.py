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
    # Selection of records.
    Option("subscribe", SOURCE, "Topics, separated by commas."),
    Option(
        "subscribePattern",
        SOURCE,
        "A regular expression (RE2), searched in topic names: `orders` also matches `old-orders`, `^orders$` does not. "
        "Kafka's internal topics are excluded.",
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
        "Milliseconds by partition, as JSON; takes precedence over `startingOffsets`.",
    ),
    Option(
        "startingTimestamp", SOURCE, "Milliseconds, for all partitions; takes precedence over both others."
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        SOURCE,
        "If no record is as new as the timestamp: `error` or `latest`.",
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
        "Read from an object store with tiered topics instead of brokers: `s3://BUCKET/PREFIX`, `gs://...`, `az://...` "
        "or `file:///FOLDER`. `remote.NAME` is option NAME of the store.",
    ),
    Option("clusterId", SOURCE, "Id of the cluster, if an object store has several."),
    Option("snapshot", SOURCE, "Snapshot in the object store, for batch reads."),
    # Size of batches and tasks.
    Option(
        "maxOffsetsPerTrigger",
        SOURCE,
        "Maximum offsets per micro-batch, distributed in proportion to the partitions' lag.",
    ),
    Option("minOffsetsPerTrigger", SOURCE, "Minimum offsets for a micro-batch."),
    Option("maxTriggerDelay", SOURCE, "Maximum delay by `minOffsetsPerTrigger`.", "15m"),
    Option("minPartitions", SOURCE, "Minimum number of Spark tasks: large partitions are split."),
    Option("maxRecordsPerPartition", SOURCE, "Maximum offsets per Spark task."),
    Option(
        "sharedTaskRecords",
        SOURCE,
        "Partitions share a Spark task up to this many offsets in total, up to five times as many if enough tasks "
        "remain; 0 gives each partition a separate task.",
        "100000",
    ),
    # Format of rows.
    Option("includeHeaders", (*SOURCE, *SINK), "Adds a column `headers`.", "false"),
    Option(
        "columns",
        SOURCE,
        "Columns to decode and transfer, separated by commas; others cost nothing.",
    ),
    Option(
        "value.format",
        SOURCE,
        "`json`, `avro`, `protobuf`, `csv` or `string`: the value's fields become typed columns.",
    ),
    Option(
        "value.schema",
        SOURCE,
        "Fields of the value as DDL: `user STRING, amount DOUBLE`; or use `.schema(...)`.",
    ),
    Option("value.avro.schema", SOURCE, "The writer's Avro schema, as JSON."),
    Option(
        "value.registry",
        SOURCE,
        "URL of a schema registry, or `true` for that of `schema.registry.url` or of the cluster: values of `avro`, "
        "`protobuf` and `json` begin with the id of their writer's schema. Default: `true` if no schema is given. "
        "Without a schema the columns are those of the newest schema of the subject TOPIC-value.",
    ),
    Option(
        "value.protobuf.message",
        SOURCE,
        "Full name of the message, `shop.Order`; by default the first one of the schema.",
    ),
    Option("value.csv.delimiter", SOURCE, "Field delimiter of CSV values.", ","),
    Option(
        "mode",
        SOURCE,
        (
            "For values that do not match the schema: `PERMISSIVE` (columns are null), `DROPMALFORMED` or "
            "`FAILFAST`."
        ),
        "PERMISSIVE",
    ),
    Option(
        "columnNameOfCorruptRecord",
        SOURCE,
        "Column for values that do not match, if the schema has it: BINARY, or STRING as text.",
        "_corrupt_record",
    ),
    # Communication with brokers.
    Option(
        "groupIdPrefix",
        SOURCE,
        "Prefix of the group that progress is committed to.",
        "spark-barnabas",
    ),
    Option(
        "commitProgress",
        SOURCE,
        (
            "Commit progress to a consumer group after each micro-batch, for lag tools. Never used for a "
            "restart."
        ),
        "true",
    ),
    Option(
        "kafkaConsumer.pollTimeoutMs",
        SOURCE,
        "Timeout of a task for records that must exist.",
        "120000",
    ),
    Option(
        "fetchOffset.numRetries",
        SOURCE,
        "Attempts of the driver to fetch offsets, if they are lower than before.",
        "3",
    ),
    Option("fetchOffset.retryIntervalMs", SOURCE, "Interval between these attempts.", "1000"),
    # The sink.
    Option("topic", SINK, "Topic of rows without a column `topic`."),
    Option("checkpointLocation", SINK, "Spark's own; the sink's identity is derived from it."),
    Option("sinkId", SINK, "The sink's identity, instead of the checkpoint's location."),
    Option(
        "batchOf",
        SINK,
        "For a job in `foreachBatch`: the id of the query whose batch it writes; with `batchNumber` and `sinkId` the "
        "batch is written once, even if Spark repeats it.",
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
        "Use the column `timestamp` as the records' timestamp.",
        "false",
    ),
    Option(
        "handedOverBytes",
        SINK,
        "A task with at most this many bytes sends its rows to the driver, which writes them with its decision.",
        "65536",
    ),
    Option(
        "tornBatch",
        SINK,
        "For a batch that the broker has partially aborted: `fail`, `skip` it, or `rerun` it completely.",
        "fail",
    ),
)
