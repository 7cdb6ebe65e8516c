"""The Spark session of all tests."""

from pyspark.sql import SparkSession

from barnabas.spark.session import LOCAL_SETTINGS, SETTINGS


def test_a_session_has_the_settings_that_micro_batches_want(spark: SparkSession) -> None:
    wanted = {**SETTINGS, **LOCAL_SETTINGS, "spark.sql.shuffle.partitions": "2"}
    configured = spark.sparkContext.getConf()
    assert {name: configured.get(name) for name in wanted} == wanted
