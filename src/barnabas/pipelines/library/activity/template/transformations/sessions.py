"""Visits: what one visitor did until a quarter of an hour passed without a sign."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


@dp.table
def sessions() -> DataFrame:
    """Written when a visit is over, late events included: a session has no first result that could be corrected."""
    events = spark.readStream.table("events")
    visits = events.groupBy(F.session_window("time", "15 minutes"), "visitor").agg(
        F.count("*").alias("events"),
        F.count_if(F.col("kind") == "view").alias("views"),
        F.max((F.col("kind") == "cart").cast("int")).alias("carted"),
        F.max((F.col("kind") == "order").cast("int")).alias("ordered"),
        F.sum("amount").alias("amount"),
    )
    return visits.select(
        "visitor",
        F.col("session_window.start").alias("start"),
        F.col("session_window.end").alias("end"),
        "events",
        "views",
        "carted",
        "ordered",
        F.round("amount", 2).alias("amount"),
    )
