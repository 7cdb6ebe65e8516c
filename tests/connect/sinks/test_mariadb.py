"""Rows to and from a real MariaDB over JDBC, with a driver named by the connector."""

import json
from pathlib import Path

import pytest

from barnabas.testing import EmbeddedBroker
from tests.connect.processes import run
from tests.connect.support import consume, produce
from tests.support.databases.mariadb import PASSWORD, USER, driver, running_mariadb

pytestmark = [pytest.mark.extended, pytest.mark.timeout(1200)]

CONNECTOR = """
name: {name}
from: {source}
to: {sink}
configuration: {{barnabas.bootstrap.servers: "{servers}", spark.driver.memory: 1g, spark.jars: "{driver}"}}
"""


def test_records_are_upserted_and_removed_and_rows_come_back_once(
    broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar, servers = driver(), broker.bootstrap_servers
    topic, back = broker.create_topic(), broker.create_topic()
    monkeypatch.setenv("SHOP", PASSWORD)

    def declare(name: str, source: str, sink: str) -> None:
        source_options = {"name": name, "source": source, "sink": sink, "servers": servers, "driver": jar}
        (tmp_path / f"{name}.yml").write_text(CONNECTOR.format(**source_options))

    with running_mariadb() as database:
        database.ask("CREATE DATABASE shop")
        database.ask(f"CREATE USER {USER}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'")
        database.ask(f"GRANT ALL ON shop.* TO {USER}@'127.0.0.1'")
        server = f'url: "{database.url("shop")}", user: {USER}, password: "${{env:SHOP}}"'
        declare(
            "orders",
            f'{{topic: {{topic: {topic}, schema: "id BIGINT, name STRING, paid DECIMAL(10,2)"}}}}',
            f"{{jdbc: {{{server}, table: orders, mode: upsert, keys: [id], delete: true}}}}",
        )
        produce(servers, topic, [(n, {"id": n, "name": f"o{n} ü", "paid": n / 4}) for n in range(1, 21)])
        run(tmp_path, "orders.yml", until=None)
        produce(servers, topic, [(3, {"id": 3, "name": "changed", "paid": 9}), (4, None), (21, {"id": 21})])
        run(tmp_path, "orders.yml", until=None)
        found = {row[0]: row[1:] for row in database.ask("SELECT id, name, paid FROM shop.orders")}
        assert len(found) == 20
        assert found["3"] == ["changed", "9.00"]
        assert found["2"] == ["o2 ü", "0.50"]
        assert found["21"] == ["NULL", "NULL"]
        assert "4" not in found
        declare(
            "back",
            f"{{jdbc: {{{server}, table: orders, incrementing: id, settle: 0s, max_rows: 7}}}}",
            f"{{topic: {{topic: {back}, key: id}}}}",
        )
        run(tmp_path, "back.yml", until=None)
        database.ask("INSERT INTO shop.orders (id, name) VALUES (22, 'last')")
        run(tmp_path, "back.yml", until=None)
    rows = [json.loads(one.value()) for one in consume(servers, back)]
    assert sorted(row["id"] for row in rows) == [*(n for n in range(1, 23) if n != 4)]
