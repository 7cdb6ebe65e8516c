"""The activity stream of the shop, typed, with its event time."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from barnabas.pipelines.connection import broker_options
from barnabas.pipelines.origin import ORIGIN
from barnabas.pipelines.times import event_time

spark = SparkSession.active()

FIELDS = "id STRING, time BIGINT, visitor STRING, kind STRING, page STRING, query STRING, amount DOUBLE"


@dp.temporary_view
def events() -> DataFrame:
    """Events may come up to five minutes late; what comes later is left out of counts that are closed."""
    raw = (
        spark.readStream.format("barnabas")
        .options(**broker_options(spark))
        .option("subscribe", spark.conf.get("activity.topic"))
        .option("kafka.isolation.level", "read_committed")
        .option("startingOffsets", "earliest")
        .option("value.format", "json")
        .schema(f"{FIELDS}, _corrupt_record BINARY, {ORIGIN}")
        .load()
    )
    return raw.withColumn("time", event_time(F.col("time"))).withWatermark("time", "5 minutes")
