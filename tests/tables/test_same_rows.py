"""Tables on Barnabas and Apache Kafka equal a poll loop, row by row, compacted topics included."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

import barnabas
from barnabas.tables.table import Table
from barnabas.testing import EmbeddedBroker
from tests.support.cli import Cli
from tests.support.kafka.broker import ApacheKafka
from tests.tables.conftest import SCHEMA, SETTINGS, Cluster, fill
from tests.tables.polled_rows import (
    COLUMNS,
    PARTITIONS,
    RECORDS,
    Row,
    compacted_topic,
    create_topic,
    newest,
    polled,
    while_nothing_changes,
)


@pytest.fixture(scope="module", params=["barnabas", pytest.param("kafka", marks=pytest.mark.java)])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if request.param == "barnabas":
        with EmbeddedBroker(SETTINGS) as broker:
            yield broker
        return
    settings = {"log.cleaner.backoff.ms": "100", "transaction.state.log.num.partitions": "1"}
    with ApacheKafka(tmp_path_factory.mktemp("kafka"), heap="256m", settings=settings) as kafka:
        yield kafka


def table_of(cluster: Cluster, topic: str) -> Table:
    return barnabas.table(topic, bootstrap=cluster.bootstrap_servers, schema=SCHEMA)


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["_partition"], row["_offset"]))


@pytest.fixture(scope="module")
def plain(cluster: Cluster) -> str:
    create_topic(cluster, "plain", {})
    fill(cluster, "plain", PARTITIONS)
    return "plain"


def test_a_table_has_the_rows_of_a_poll_loop(cluster: Cluster, plain: str) -> None:
    table = table_of(cluster, plain)
    found = in_order(table.to_arrow([*COLUMNS, "_error"]).to_pylist())
    bad = [row.pop("_error") is not None for row in found]
    expected = polled(cluster, plain)
    assert found == expected
    assert bad == [row["_corrupt_record"] is not None for row in expected]
    assert table.last.bad_values == sum(bad) > 0


def test_newest_record_of_each_key_equals_a_poll_loop(cluster: Cluster, plain: str) -> None:
    found = {row["_key"]: row for row in table_of(cluster, plain).latest(COLUMNS).to_pylist()}
    assert found == newest(polled(cluster, plain))


def test_sql_count_equals_a_poll_loop(cluster: Cluster, plain: str) -> None:
    expected: dict[Any, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for row in polled(cluster, plain):
        count, total = expected[row["country"]]
        expected[row["country"]] = (count + 1, total + (row["amount"] or 0.0))
    query = "select country, count(*) as n, coalesce(sum(amount), 0) as total from plain group by 1"
    cli = Cli(cluster.bootstrap_servers)
    shown = cli.ok("sql", query, "--schema", f"plain={SCHEMA}", "-o", "json")
    rows = [json.loads(line) for line in shown.out.splitlines()]
    assert {row["country"]: (row["n"], row["total"]) for row in rows} == dict(expected)


def test_a_compacted_topic_has_the_same_rows_in_full(cluster: Cluster) -> None:
    topic = compacted_topic(cluster, "compacted")
    table = table_of(cluster, topic)
    expected, found = while_nothing_changes(
        cluster, topic, lambda: table.to_arrow(COLUMNS).to_pylist(), RECORDS // 3
    )
    assert in_order(found) == expected
    assert any(row["_corrupt_record"] is not None for row in expected)
    assert any(row["_value"] is None for row in expected)
    latest = {row["_key"]: row for row in table.latest(COLUMNS).to_pylist() if row["_key"] != b"last"}
    assert latest == {key: row for key, row in newest(expected).items() if key != b"last"}
