"""Topics read by a query, from its plan; also for Spark's connector, whose patterns are Java's."""

import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines.running.broker_checks import source_of, topic_sources
from tests.support.spark.jars import requires_connector

NOBODY = "127.0.0.1:1"


def test_a_pattern_need_not_match_the_whole_name_of_a_topic() -> None:
    for kind in ("barnabas", "kafka"):
        options = {"kafka.bootstrap.servers": NOBODY, "subscribepattern": "orders"}
        source = source_of(kind, options)
        assert source is not None
        assert source.reads("old-orders")
        assert not source.reads("old-order")


@requires_connector
def test_a_stream_with_a_pattern_that_only_java_knows_is_left_out_with_a_warning(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", NOBODY)
    assert topic_sources(reader.option("subscribePattern", "^(?!x).*").load()) == []
    (warning,) = caplog.records
    assert "'^(?!x).*'" in warning.getMessage()


def test_a_source_that_reads_an_object_store_has_no_progress_at_brokers() -> None:
    assert source_of("barnabas", {"remote": "s3://bucket", "subscribe": "orders"}) is None
