"""Store every record of the topics unchanged, in folders by the hour of its timestamp.

The columns are those of Spark's Kafka source. `warehouse.keys` and `warehouse.values` set the type of `key` and
`value`: bytes, text, or the fields of JSON, CSV or Avro. Invalid text and values are kept as bytes in a second column.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from barnabas.pipelines.connection import broker_options
from barnabas.pipelines.source.ddl import parse_ddl

spark = SparkSession.active()

FORMATS = ("json", "csv", "avro")
# Columns of the record, as the source names them next to the fields of a value.
RECORD = {
    "_key": "BINARY",
    "_value": "BINARY",
    "_topic": "STRING",
    "_partition": "INT",
    "_offset": "BIGINT",
    "_timestamp": "TIMESTAMP",
    "_timestampType": "INT",
    "_headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
}
CORRUPT = "_corrupt_record"


def _source() -> DataStreamReader:
    return (
        spark.readStream.format("barnabas")
        .options(**broker_options(spark))
        .option("subscribe", spark.conf.get("warehouse.topics"))
        .option("kafka.isolation.level", "read_committed")
        .option("startingOffsets", "earliest")
    )


def _with_text(records: DataFrame, name: str) -> DataFrame:
    """Convert a column to text; bytes that are not UTF-8 go into a second column."""
    text = F.try_validate_utf8(F.col(name).cast("string"))
    return records.withColumns({name: text, f"{name}_bytes": F.when(text.isNull(), F.col(name))})


def _typed(values: str) -> DataFrame:
    """The fields as a struct `value`. It is NULL for tombstones and invalid values; the latter are in `value_bytes`."""
    # `warehouse.value.csv.delimiter` is the source's option `value.csv.delimiter`, and so on.
    given = {name: text for name, text in spark.conf.getAll.items() if name.startswith("warehouse.value.")}
    options = {name.removeprefix("warehouse."): text for name, text in given.items()}
    if "value.schema" not in options:
        raise ValueError(
            f"warehouse.values: {values} wants warehouse.value.schema: the fields, as in `id BIGINT, ...`"
        )
    columns = [
        options["value.schema"],
        *(f"{name} {kind}" for name, kind in RECORD.items()),
        f"{CORRUPT} BINARY",
    ]
    found = _source().option("value.format", values).options(**options).schema(", ".join(columns)).load()
    fields = F.struct(*(F.col(f"`{name}`") for name in parse_ddl(options["value.schema"]).names))
    fits = F.col("_value").isNotNull() & F.col(CORRUPT).isNull()
    record = {name.removeprefix("_"): F.col(name) for name in RECORD} | {"value": F.when(fits, fields)}
    return found.select(
        *(column.alias(name) for name, column in record.items()), F.col(CORRUPT).alias("value_bytes")
    )


def _choice(setting: str, *choices: str) -> str:
    chosen = spark.conf.get(setting, choices[0])
    if chosen not in choices:
        raise ValueError(f"{setting}: {chosen} is none of {', '.join(choices)}")
    return chosen


@dp.table(partition_cols=["date", "hour"])
def events() -> DataFrame:
    values = _choice("warehouse.values", "bytes", "text", *FORMATS)
    keys = _choice("warehouse.keys", "bytes", "text")
    records = _typed(values) if values in FORMATS else _source().option("includeHeaders", "true").load()
    for name in [name for name, kind in (("key", keys), ("value", values)) if kind == "text"]:
        records = _with_text(records, name)
    return records.withColumns({"date": F.to_date("timestamp"), "hour": F.hour("timestamp")})
