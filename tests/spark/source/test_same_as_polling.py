"""Spark's rows of a compacted topic, compared with a poll loop and a table."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from typing import Any

import pytest
from pyspark.sql import Row as SparkRow
from pyspark.sql import SparkSession

import barnabas
from barnabas.testing import EmbeddedBroker
from tests.tables.conftest import SCHEMA, SETTINGS
from tests.tables.polled_rows import COLUMNS, RECORDS, Row, compacted_topic, while_nothing_changes


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(SETTINGS) as running:
        yield running


def test_spark_a_table_and_a_poll_loop_have_the_same_rows(
    spark: SparkSession, cluster: EmbeddedBroker
) -> None:
    topic = compacted_topic(cluster, "compacted")
    table = barnabas.table(topic, bootstrap=cluster.bootstrap_servers, schema=SCHEMA)
    frame = (
        spark.read.format("barnabas")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", topic)
        .option("value.format", "json")
        .option("value.schema", f"{SCHEMA}, _corrupt_record STRING")
        .option("columns", ",".join(COLUMNS))
        .load()
    )
    expected, (by_spark, by_table) = while_nothing_changes(
        cluster,
        topic,
        lambda: ([plain(row) for row in frame.collect()], table.to_arrow(COLUMNS).to_pylist()),
        RECORDS // 3,
    )
    for found in (by_spark, by_table):
        assert sorted(found, key=lambda row: (row["_partition"], row["_offset"])) == expected


def plain(row: SparkRow) -> Row:
    """As Arrow has it: bytes, and moments of UTC."""
    found: dict[str, Any] = row.asDict(recursive=True)
    found["_timestamp"] = found["_timestamp"].astimezone(UTC)
    for name in ("_key", "_value"):
        found[name] = None if found[name] is None else bytes(found[name])
    for header in found["_headers"] or []:
        header["value"] = None if header["value"] is None else bytes(header["value"])
    return found
