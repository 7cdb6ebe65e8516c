"""Orders with the facts of their customers, from a table that a compacted topic keeps."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from barnabas.pipelines.connection import broker_options
from barnabas.pipelines.origin import ORIGIN
from barnabas.pipelines.times import event_time

spark = SparkSession.active()

BROKER = broker_options(spark)
ORDER = "order BIGINT, customer STRING, amount DOUBLE, time BIGINT"
CUSTOMER = "name STRING, city STRING, level STRING"
MAX_FACTS = 100_000  # bytes: an order with them must fit into a record, where a character may take six

dp.create_sink(
    "enriched_topic", "barnabas", {**BROKER, "topic": f"{spark.conf.get('enrich.orders')}.enriched"}
)


@dp.temporary_view
def orders() -> DataFrame:
    raw = (
        spark.readStream.format("barnabas")
        .options(**BROKER)
        .option("subscribe", spark.conf.get("enrich.orders"))
        .option("kafka.isolation.level", "read_committed")
        .option("startingOffsets", "earliest")
        .option("value.format", "json")
        .schema(f"{ORDER}, _corrupt_record BINARY, {ORIGIN}")
        .load()
    )
    return raw.withColumn("time", event_time(F.col("time")))


@dp.temporary_view
def customers() -> DataFrame:
    """The last row of each key; a null value has taken a key out. Read again for each micro-batch, so that changes
    count from the next one on; a table of more than some hundred thousand rows wants a stream-stream join instead.
    A value that is too large for facts of a customer counts as none."""
    raw = (
        spark.read.format("barnabas")
        .options(**BROKER)
        .option("subscribe", spark.conf.get("enrich.customers"))
        .option("kafka.isolation.level", "read_committed")
        .option("columns", "key,value,offset")
        .load()
    )
    latest = raw.groupBy(F.col("key").cast("string").alias("customer")).agg(
        F.max_by("value", "offset").alias("value")
    )
    facts = F.from_json(F.col("value").cast("string"), CUSTOMER)
    return (
        latest.where(F.length("value") <= MAX_FACTS)
        .select("customer", facts.alias("facts"))
        .select("customer", "facts.*")
    )


@dp.append_flow(name="enriched", target="enriched_topic")
def enriched() -> DataFrame:
    """Join orders with customers. Orders of unknown customers are kept, without customer fields."""
    joined = spark.readStream.table("orders").join(spark.read.table("customers"), "customer", "left")
    row = F.struct("order", "customer", "amount", "time", "name", "city", "level")
    return joined.select(F.col("order").cast("string").alias("key"), F.to_json(row).alias("value"))
