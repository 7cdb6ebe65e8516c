"""Every record of the topics, as it is, in folders by the hour of its timestamp."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from barnabas.pipelines.connection import broker_options

spark = SparkSession.active()


@dp.table(partition_cols=["date", "hour"])
def events() -> DataFrame:
    """To load typed columns instead, give the source `value.format` and `value.schema`."""
    raw = (
        spark.readStream.format("barnabas")
        .options(**broker_options(spark))
        .option("subscribe", spark.conf.get("warehouse.topics"))
        .option("kafka.isolation.level", "read_committed")
        .option("startingOffsets", "earliest")
        .load()
    )
    return raw.select(
        "topic",
        "partition",
        "offset",
        "timestamp",
        F.col("key").cast("string").alias("key"),
        F.col("value").cast("string").alias("value"),
        F.to_date("timestamp").alias("date"),
        F.hour("timestamp").alias("hour"),
    )
