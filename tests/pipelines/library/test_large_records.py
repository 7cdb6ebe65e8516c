"""Records with a field of maximum size become dead letters, and the query continues."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines.library.activity.generator import TOPIC as ACTIVITY
from barnabas.pipelines.library.enrich.generator import CUSTOMERS, ORDERS
from barnabas.pipelines.library.operations.generator import TOPIC as OPERATIONS
from barnabas.pipelines.library.records import Generated, as_json
from barnabas.testing import EmbeddedBroker
from tests.support.spark.workbench import START, Workbench

pytestmark = pytest.mark.timeout(300)  # many flows, one after another, on a busy machine

LARGE = "x" * 900_000
LONGEST = "\x01" * 1000  # that passes the rules, and takes six bytes a character in JSON


@pytest.fixture
def servers() -> Iterator[str]:
    """A separate broker, because result topics have fixed names."""
    with EmbeddedBroker() as broker:
        yield broker.bootstrap_servers


def letters(bench: Workbench, topic: str) -> list[tuple[bytes | None, str]]:
    return sorted(
        (record.value, record.headers["errors.reason"]) for record in bench.read(f"{topic}.dead-letters")
    )


def send(bench: Workbench, topic: str, documents: list[dict[str, Any]]) -> list[bytes]:
    values = [as_json(document) for document in documents]
    bench.send(Generated(topic, None, value, START) for value in values)
    return values


def test_activity_counts_continue_with_large_fields(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    bench = Workbench("activity", tmp_path / "clicks", servers)
    bench.create_inputs(ACTIVITY)
    event = {"id": "1", "time": START, "visitor": "v", "kind": "view", "page": LONGEST, "query": LONGEST}
    send(bench, ACTIVITY, [event, {**event, "kind": "search"}])
    large: list[dict[str, Any]] = [
        {**event, "page": LARGE},
        {**event, "kind": "search", "query": LARGE},
        {**event, "kind": LARGE},
        {**event, "visitor": LARGE},
    ]
    sent = send(bench, ACTIVITY, large)
    bench.run(spark)
    assert letters(bench, "shop.activity") == sorted((value, "texts are short") for value in sent)
    (page,) = bench.latest("activity.pages").values()
    assert (page["page"], page["views"]) == (LONGEST, 1)
    (search,) = bench.latest("activity.searches").values()
    assert (search["term"], search["count"]) == (LONGEST, 1)
    assert sorted(row["kind"] for row in bench.latest("activity.traffic").values()) == ["search", "view"]


def test_operations_continues_with_a_report_of_a_large_name(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    bench = Workbench("operations", tmp_path / "watch", servers)
    bench.create_inputs(OPERATIONS)
    report = {"time": START, "service": LONGEST, "kind": "request", "duration_ms": 5000.0, "status": 503}
    minutes = [{**report, "time": START + minute * 60_000} for minute in range(10)]
    send(bench, OPERATIONS, minutes)
    sent = send(bench, OPERATIONS, [{**report, "service": LARGE}])
    bench.run(spark)
    send(bench, OPERATIONS, [{**report, "time": START + 3_600_000}])
    bench.run(spark)
    assert letters(bench, "shop.metrics") == [(sent[0], "service is short")]
    assert {row["service"] for row in bench.latest("operations.services").values()} == {LONGEST}
    assert {event.alarm for event in bench.alarms} == {"slow requests", "failing requests"}
    assert len(bench.read("operations.alarms")) == len(bench.alarms)


def test_orders_of_large_customers_go_on_without_facts_or_are_dead_letters(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    bench = Workbench("enrich", tmp_path / "enrich", servers)
    bench.create_inputs(ORDERS, CUSTOMERS)
    facts = {"c1": "Ann", LONGEST: "\x01" * 16_000, "c2": LARGE}
    bench.send(Generated(CUSTOMERS, who, as_json({"name": name}), START) for who, name in facts.items())
    order = {"amount": 1.5, "time": START}
    send(bench, ORDERS, [{**order, "order": number, "customer": who} for number, who in enumerate(facts)])
    sent = send(bench, ORDERS, [{**order, "order": 7, "customer": LARGE}])
    bench.run(spark)
    assert letters(bench, "shop.orders") == [(sent[0], "customer is short")]
    found = [json.loads(record.value or b"") for record in bench.read("shop.orders.enriched")]
    assert {row["order"]: row.get("name") for row in found} == {0: "Ann", 1: facts[LONGEST], 2: None}
