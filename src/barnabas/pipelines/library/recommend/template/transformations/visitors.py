"""Per visitor: items that they have not seen, by a model of hidden tastes (alternating least squares, Spark's ML)."""

from pyspark import pipelines as dp
from pyspark.ml.feature import StringIndexer
from pyspark.ml.recommendation import ALS
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from barnabas.pipelines.training import is_planning

spark = SparkSession.active()


def setting(name: str) -> int:
    return int(str(spark.conf.get(f"recommend.{name}")))


def preferences() -> DataFrame:
    recent = F.col("date") >= F.date_sub(F.current_date(), setting("days"))
    weighed = spark.read.table("behaviour").where(recent)
    return weighed.groupBy("visitor", "item").agg(F.sum("weight").cast("float").alias("weight"))


@dp.materialized_view
def visitors() -> DataFrame:
    seen = preferences()
    if (
        is_planning(spark) or seen.isEmpty()
    ):  # nothing to learn from; the plan requires columns and tables only
        return seen.where("false").select(
            F.lit("").alias("key"),
            F.expr("CAST(NULL AS ARRAY<STRUCT<item: STRING, score: FLOAT>>)").alias("items"),
        )
    by_name = StringIndexer(inputCols=["visitor", "item"], outputCols=["user", "product"]).fit(seen)
    numbered = by_name.transform(seen).withColumns(
        {"user": F.col("user").cast("int"), "product": F.col("product").cast("int")}
    )
    numbered = numbered.cache()
    model = ALS(
        userCol="user",
        itemCol="product",
        ratingCol="weight",
        rank=setting("rank"),
        maxIter=setting("rounds"),
        alpha=float(setting("alpha")),
        implicitPrefs=True,
        numUserBlocks=setting("blocks"),
        numItemBlocks=setting("blocks"),
        seed=1,
    ).fit(numbered)
    max_seen = numbered.groupBy("user").count().agg(F.max("count")).head()
    wanted = setting("items")
    guesses = model.recommendForAllUsers(wanted + int(max_seen[0] if max_seen else 0))
    return unseen(guesses, numbered, wanted)


def unseen(guesses: DataFrame, numbered: DataFrame, wanted: int) -> DataFrame:
    """The best items of each visitor without those that they have seen, by their names again."""
    each = guesses.select("user", F.explode("recommendations").alias("guess")).select("user", "guess.*")
    new = each.join(numbered.select("user", "product"), ["user", "product"], "left_anti")
    best = Window.partitionBy("user").orderBy(F.desc("rating"), "product")
    kept = new.withColumn("rank", F.row_number().over(best)).where(F.col("rank") <= wanted)
    people = numbered.select("user", "visitor").distinct()
    things = numbered.select("product", "item").distinct()
    named = kept.join(F.broadcast(things), "product").join(people, "user")
    ranked = F.array_sort(F.collect_list(F.struct("rank", "item", F.col("rating").alias("score"))))
    return named.groupBy(F.concat(F.lit("visitor|"), "visitor").alias("key")).agg(
        F.transform(ranked, lambda one: F.struct(one["item"], one["score"])).alias("items")
    )
