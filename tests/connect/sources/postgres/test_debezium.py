"""Debezium's connector and our source on the same tables: the same changes in the same order."""

import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing import EmbeddedBroker
from tests.connect.sources.postgres.micro_batches import Engine, delivered, settings
from tests.connect.sources.postgres.workload import TABLES, Workload
from tests.connect.support import consume
from tests.connect.test_worker import DEADLINE, running
from tests.support.databases.postgres import PostgresServer
from tests.support.kafka.jars import kafka_libs, requires_java
from tests.support.programs import PROJECT_ROOT, free_port
from tests.support.waiting import until

pytestmark = [pytest.mark.extended, pytest.mark.timeout(1200), requires_java]

PLUGINS = PROJECT_ROOT / ".cache" / "debezium-3.6.0.Final"
"""`make debezium-install` fetches it."""
EVENTS = "events"
UNAVAILABLE = "__debezium_unavailable_value"
LAST = -1
Event = tuple[str, str, Any, Any, Any]
"""op, table, key, before, after"""


def config(port: int, database: str) -> dict[str, str]:
    """Text or JSON values, all tables in one topic, truncations included: comparable with ours."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "database.hostname": "127.0.0.1",
        "database.port": str(port),
        "database.user": "postgres",
        "database.password": "any",
        "database.dbname": database,
        "slot.name": "debezium",
        "publication.name": "shop",
        "publication.autocreate.mode": "disabled",
        "table.include.list": "public.orders,public.lines",
        "topic.prefix": "shop",
        "snapshot.mode": "initial",
        "decimal.handling.mode": "string",
        "tombstones.on.delete": "false",
        "skipped.operations": "none",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "false",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "value.converter.replace.null.with.default": "false",
        "transforms": "one",
        "transforms.one.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.one.regex": ".*",
        "transforms.one.replacement": EVENTS,
    }


def theirs(servers: str) -> list[Event]:
    found = []
    for message in consume(servers, EVENTS):
        value, key = json.loads(message.value()), message.key()
        before = {name: one for name, one in _row(value["before"] or {}).items() if one is not None}
        key = json.loads(key) if key is not None and value["op"] != "t" else None
        found.append((value["op"], value["source"]["table"], key, before or None, _row(value["after"])))
    return found


def _row(row: dict[str, Any] | None) -> Any:
    """Debezium sends JSON as text, and a placeholder for unchanged large values."""
    if row is None:
        return None
    known = {name: one for name, one in row.items() if one != UNAVAILABLE}
    return {
        name: json.loads(one) if name == "what" and one is not None else one for name, one in known.items()
    }


def ours(folder: Path) -> list[Event]:
    found = []
    for row in delivered(folder):
        key, before, after = (
            None if row[name] is None else json.loads(row[name]) for name in ("key", "before", "after")
        )
        before = {name: one for name, one in (before or {}).items() if one is not None} or None
        found.append((row["op"], row["table"], key, before, after))
    return found


def of_snapshot(events: list[Event]) -> list[str]:
    """Its rows have no order."""
    return sorted(json.dumps(event, sort_keys=True) for event in events if event[0] == "r")


def test_changes_equal_those_of_debezium(postgres: PostgresServer, database: str, tmp_path: Path) -> None:
    if not PLUGINS.exists():
        pytest.skip("no Debezium here: run `make debezium-install`")
    (tmp_path / "shop.json").write_text(
        json.dumps({"name": "shop", "config": config(postgres.port, database)})
    )
    (tmp_path / "ours").mkdir()
    chosen = settings(postgres.url(database))

    def message() -> str:
        return (tmp_path / "log").read_text()[-4000:]

    with postgres.connect(database) as shop, EmbeddedBroker() as broker:
        for statement in TABLES.strip().split(";\n"):
            shop.execute(statement)
        work = Workload(shop, 17)
        work.some(30)
        servers = broker.bootstrap_servers
        broker.create_topic(EVENTS)
        Engine(tmp_path / "ours", chosen).run()
        arguments = ["shop.json", "--plugins", str(PLUGINS), "--kafka-libs", str(kafka_libs())]
        with running(tmp_path, *arguments, "--port", str(free_port()), "-b", servers):
            rows = len(of_snapshot(ours(tmp_path / "ours")))
            until(lambda: len(of_snapshot(theirs(servers))) == rows, message, seconds=DEADLINE)
            work.some(200)
            shop.execute("INSERT INTO orders (id) VALUES (%s)", (LAST,))
            Engine(tmp_path / "ours", chosen).run()
            until(
                lambda: any(event[2] == {"id": LAST} for event in theirs(servers)),
                message,
                seconds=DEADLINE,
            )
        events, expected = ours(tmp_path / "ours"), theirs(servers)
    assert of_snapshot(events) == of_snapshot(expected)
    changes = [event for event in events if event[0] != "r"]
    assert changes == [event for event in expected if event[0] != "r"]
    assert {event[0] for event in changes} == {"c", "u", "d", "t"}
