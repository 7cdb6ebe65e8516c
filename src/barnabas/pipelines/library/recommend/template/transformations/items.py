"""Similar items: items viewed in the same visits more often than by chance."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

spark = SparkSession.active()

MAX_ITEMS_PER_VISIT = 50  # items; ignores crawlers, which view everything
MIN_VISITS = 2


def recent() -> DataFrame:
    days = int(str(spark.conf.get("recommend.days")))
    return spark.read.table("behaviour").where(F.col("date") >= F.date_sub(F.current_date(), days))


def visits() -> DataFrame:
    """A visitor's events until half an hour passed without one, and the different items of each visit."""
    gap = 60 * int(str(spark.conf.get("recommend.visit.minutes")))
    by_time = Window.partitionBy("visitor").orderBy("time")
    starts = F.coalesce(
        F.unix_timestamp("time") - F.lag(F.unix_timestamp("time")).over(by_time) > gap, F.lit(True)
    )
    numbered = recent().withColumn("visit", F.sum(starts.cast("int")).over(by_time))
    items = numbered.groupBy("visitor", "visit").agg(F.collect_set("item").alias("items"))
    return items.where(F.size("items") <= MAX_ITEMS_PER_VISIT)


@dp.materialized_view
def items() -> DataFrame:
    """The score of a pair is the cosine of both items' visits: 1 if they are always seen together."""
    seen = visits()
    single = seen.select(F.explode("items").alias("item")).groupBy("item").agg(F.count("*").alias("visits"))
    pairs = seen.select("items", F.explode("items").alias("item")).select(
        "item", F.explode("items").alias("other")
    )
    together = pairs.where("item <> other").groupBy("item", "other").agg(F.count("*").alias("together"))
    others = single.select(F.col("item").alias("other"), F.col("visits").alias("visits_of_other"))
    score = F.col("together") / F.sqrt(F.col("visits") * F.col("visits_of_other"))
    scored = (
        together.where(F.col("together") >= MIN_VISITS)
        .join(single, "item")
        .join(others, "other")
        .select("item", "other", F.round(score, 4).alias("score"))
    )
    best = Window.partitionBy("item").orderBy(F.desc("score"), "other")
    kept = scored.withColumn("rank", F.row_number().over(best)).where(
        F.col("rank") <= int(str(spark.conf.get("recommend.items")))
    )
    ranked = F.array_sort(F.collect_list(F.struct("rank", F.col("other").alias("item"), "score")))
    return kept.groupBy(F.concat(F.lit("item|"), "item").alias("key")).agg(
        F.transform(ranked, lambda each: F.struct(each["item"], each["score"])).alias("items")
    )
