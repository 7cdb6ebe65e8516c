"""Events of visitors with items, from the topic into the warehouse, partitioned by hour."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from barnabas.pipelines.connection import broker_options
from barnabas.pipelines.origin import ORIGIN
from barnabas.pipelines.times import event_time

spark = SparkSession.active()

FIELDS = "id STRING, time BIGINT, visitor STRING, kind STRING, item STRING"


@dp.temporary_view
def events() -> DataFrame:
    raw = (
        spark.readStream.format("barnabas")
        .options(**broker_options(spark))
        .option("subscribe", spark.conf.get("recommend.topic"))
        .option("kafka.isolation.level", "read_committed")
        .option("startingOffsets", "earliest")
        .option("value.format", "json")
        .schema(f"{FIELDS}, _corrupt_record BINARY, {ORIGIN}")
        .load()
    )
    return raw.withColumn("time", event_time(F.col("time")))


@dp.table(partition_cols=["date", "hour"])
def behaviour() -> DataFrame:
    """Each event once. Orders have a higher weight than views."""
    weight = F.expr("CASE kind WHEN 'order' THEN 5 WHEN 'cart' THEN 3 WHEN 'click' THEN 2 ELSE 1 END")
    kept = spark.readStream.table("events").select("visitor", "item", "time", weight.alias("weight"))
    return kept.withColumns({"date": F.to_date("time"), "hour": F.hour("time")})
