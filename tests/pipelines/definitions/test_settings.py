"""Durations of Spark."""

from barnabas.pipelines.definitions.settings import interval_of


def test_spark_gets_milliseconds() -> None:
    assert interval_of("30s") == "30000 milliseconds"
