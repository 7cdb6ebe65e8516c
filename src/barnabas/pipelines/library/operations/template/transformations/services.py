"""Reports of the services, and statistics per service and minute."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from barnabas.pipelines.connection import broker_options
from barnabas.pipelines.origin import ORIGIN
from barnabas.pipelines.times import event_time

spark = SparkSession.active()

FIELDS = (
    "time BIGINT, service STRING, host STRING, kind STRING, duration_ms DOUBLE, status INT, cpu DOUBLE, "
    "io_wait DOUBLE, memory DOUBLE, tps DOUBLE, level STRING, message STRING"
)
BROKER = broker_options(spark)

dp.create_sink("services_topic", "barnabas", {**BROKER, "topic": "operations.services"})


@dp.temporary_view
def reports() -> DataFrame:
    """Requests, measurements of hosts and log lines, in one stream; they may come a minute late."""
    raw = (
        spark.readStream.format("barnabas")
        .options(**BROKER)
        .option("subscribe", spark.conf.get("operations.topic"))
        .option("kafka.isolation.level", "read_committed")
        .option("startingOffsets", "earliest")
        .option("value.format", "json")
        .schema(f"{FIELDS}, _corrupt_record BINARY, {ORIGIN}")
        .load()
    )
    return raw.withColumn("time", event_time(F.col("time"))).withWatermark("time", "1 minute")


@dp.append_flow(name="services", target="services_topic")
def services() -> DataFrame:
    """Percentiles are those of a sketch; it is exact up to some thousand requests a minute and service."""
    minutes = spark.readStream.table("reports").groupBy(F.window("time", "1 minute"), "service")
    percentiles = F.percentile_approx("duration_ms", [0.5, 0.95, 0.99], 10_000)
    health = minutes.agg(
        F.count("*").alias("reports"),
        F.count("status").alias("requests"),
        F.count_if(F.col("status") >= 500).alias("errors"),
        percentiles.alias("percentiles"),
        F.round(F.avg("cpu"), 1).alias("cpu"),
        F.round(F.avg("io_wait"), 2).alias("io_wait"),
        F.round(F.avg("memory"), 1).alias("memory"),
        F.round(F.avg("tps"), 1).alias("tps"),
        F.count_if(F.col("level") == "ERROR").alias("error_lines"),
    )
    rows = health.select(
        F.col("window.start").alias("minute"),
        "service",
        "reports",
        "requests",
        "errors",
        F.round(F.try_divide("errors", "requests"), 4).alias("error_rate"),
        F.col("percentiles")[0].alias("p50"),
        F.col("percentiles")[1].alias("p95"),
        F.col("percentiles")[2].alias("p99"),
        "cpu",
        "io_wait",
        "memory",
        "tps",
        "error_lines",
    )
    key = F.concat_ws("|", F.col("minute").cast("string"), "service")
    return rows.select(key.alias("key"), F.to_json(F.struct("*")).alias("value"))
