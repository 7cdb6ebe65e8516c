"""Views per page and minute, events per kind and minute, searches per term and hour: each to a topic."""

from pyspark import pipelines as dp
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from barnabas.pipelines.connection import broker_options

spark = SparkSession.active()


def result_topic(name: str) -> None:
    sink = f"{name.replace('.', '_')}_topic"
    dp.create_sink(sink, "barnabas", {**broker_options(spark), "topic": name})


def keyed(frame: DataFrame, *key: str) -> DataFrame:
    """A record for each row: the key names it, the value is the row as JSON."""
    text: list[Column] = [F.col(name).cast("string") for name in key]
    return frame.select(F.concat_ws("|", *text).alias("key"), F.to_json(F.struct("*")).alias("value"))


result_topic("activity.pages")
result_topic("activity.traffic")
result_topic("activity.searches")


@dp.append_flow(name="pages", target="activity_pages_topic")
def pages() -> DataFrame:
    """The set of visitors is exact; for more than some 100,000 a minute take approx_count_distinct instead."""
    views = spark.readStream.table("events").where("kind = 'view'")
    counted = views.groupBy(F.window("time", "1 minute"), "page").agg(
        F.count("*").alias("views"), F.size(F.collect_set("visitor")).alias("visitors")
    )
    return keyed(
        counted.select(F.col("window.start").alias("minute"), "page", "views", "visitors"), "minute", "page"
    )


@dp.append_flow(name="traffic", target="activity_traffic_topic")
def traffic() -> DataFrame:
    counted = spark.readStream.table("events").groupBy(F.window("time", "1 minute"), "kind").count()
    return keyed(counted.select(F.col("window.start").alias("minute"), "kind", "count"), "minute", "kind")


@dp.append_flow(name="searches", target="activity_searches_topic")
def searches() -> DataFrame:
    """Searches per term; readers of the topic sort them, because an order over a stream has no end."""
    asked = spark.readStream.table("events").where("kind = 'search'").withColumn("term", F.lower("query"))
    counted = asked.groupBy(F.window("time", "1 hour"), "term").count()
    return keyed(counted.select(F.col("window.start").alias("hour"), "term", "count"), "hour", "term")
