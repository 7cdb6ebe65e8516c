"""The template `enrich`: orders joined with the newest customer records of a compacted topic."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines.library.enrich.generator import CUSTOMERS, ORDERS
from barnabas.testing import EmbeddedBroker
from tests.support.spark.workbench import Workbench

pytestmark = pytest.mark.timeout(300)  # many flows, one after another, on a busy machine


def test_orders_get_the_facts_that_plain_python_would_give_them(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topics = {ORDERS: "enrich-orders", CUSTOMERS: "enrich-customers"}
    bench = Workbench("enrich", tmp_path / "enrich", broker.bootstrap_servers, topics)
    bench.create_inputs(ORDERS, CUSTOMERS)
    made = bench.generate(1_500)
    bench.send(made)
    bench.run(spark)
    customers: dict[str, Any] = {}
    orders = []
    for record in made:
        if record.topic == ORDERS:
            orders.append(json.loads(record.value or b""))
        elif record.value is None:
            customers.pop(str(record.key), None)
        else:
            customers[str(record.key)] = json.loads(record.value)
    found = bench.latest("enrich-orders.enriched")
    assert len(found) == len(orders)
    for order in orders:
        row = found[str(order["order"])]
        assert (row["customer"], row["amount"]) == (order["customer"], order["amount"])
        facts = customers.get(order["customer"], {})
        assert {name: row.get(name) for name in ("name", "city", "level")} == {
            name: facts.get(name) for name in ("name", "city", "level")
        }
