"""A broker that is down for half a minute during a stream: the query waits and continues automatically."""

import time

import pytest
from pyspark.sql import SparkSession

from barnabas.testing import EmbeddedBroker
from tests.support.spark.reading import DEADLINE, produce, started, stream
from tests.support.waiting import until

pytestmark = [pytest.mark.extended, pytest.mark.timeout(600)]

SECONDS_AWAY = 30.0


def test_a_stream_outlives_a_broker_that_is_away(spark: SparkSession) -> None:
    with EmbeddedBroker() as broker:
        topic = broker.create_topic(partitions=2)
        first, second = [b"%03d" % index for index in range(50)], [b"%03d" % index for index in range(50, 90)]
        produce(broker.bootstrap_servers, topic, first)
        frame = stream(spark, broker.bootstrap_servers, topic).load().select("value")
        query = started(frame.writeStream.format("memory").queryName("broker_away").start)
        try:
            broker.kill()
            time.sleep(SECONDS_AWAY)  # the tested outage, not a wait
            broker.start()
            assert query.isActive, query.exception()
            produce(broker.bootstrap_servers, topic, second, partition=1)
            wait_for_rows(spark, len(first) + len(second))
        finally:
            query.stop()
        found = sorted(row.value for row in spark.table("broker_away").collect())
        assert found == first + second


def wait_for_rows(spark: SparkSession, count: int) -> None:
    until(
        lambda: spark.table("broker_away").count() >= count, "the stream did not go on", seconds=2 * DEADLINE
    )
