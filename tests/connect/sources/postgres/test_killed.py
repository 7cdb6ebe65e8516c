"""PostgreSQL to a topic with Spark, killed repeatedly: no change is lost or duplicated."""

import json
import threading
from pathlib import Path

import pytest

from barnabas.testing import EmbeddedBroker
from tests.connect.processes import run
from tests.connect.sources.postgres.workload import TABLES, Workload, folded, stored, witnessed
from tests.connect.support import consume
from tests.support.databases.postgres import PostgresServer

pytestmark = [pytest.mark.extended, pytest.mark.timeout(1800)]

KILLS = 3
DECLARED = """
name: shop
from: {{postgres: {{url: "{url}", tables: [orders, lines], slot: shop, publication: shop, max_changes: 50}}}}
to: {{topic: {{topic: {topic}}}}}
trigger: 200 milliseconds
configuration: {{barnabas.bootstrap.servers: "{servers}", spark.driver.memory: 1g}}
"""


def test_a_topic_is_the_tables_after_kills_in_the_middle(
    broker: EmbeddedBroker, postgres: PostgresServer, database: str, tmp_path: Path
) -> None:
    topic = broker.create_topic()
    text = DECLARED.format(url=postgres.url(database), topic=topic, servers=broker.bootstrap_servers)
    (tmp_path / "shop.yml").write_text(text)
    with postgres.connect(database) as shop:
        for statement in TABLES.strip().split(";\n"):
            shop.execute(statement)
        work = Workload(shop, 5)
        work.some(50)
        ended = threading.Event()
        worker = threading.Thread(target=keep_working, args=(work, ended))
        worker.start()
        try:
            for kills in range(1, KILLS + 1):
                run(tmp_path, "shop.yml", until=lambda batches=2 * kills: len(notes(tmp_path)) >= batches)  # type: ignore[misc]
        finally:
            ended.set()
            worker.join()
        run(tmp_path, "shop.yml", until=None)
        rows = [as_delivered(json.loads(one.value())) for one in consume(broker.bootstrap_servers, topic)]
        changes = [row for row in rows if row["op"] != "r"]
        places = [(row["lsn"], row["seq"]) for row in changes]
        assert places == sorted(set(places)), "a change is there twice, or late"
        events = [
            (row["op"], row["table"], None if row["key"] is None else json.loads(str(row["key"])))
            for row in changes
        ]
        assert events == witnessed(shop, 0)[-len(events) :]
        assert folded(rows) == stored(shop)


def keep_working(work: Workload, ended: threading.Event) -> None:
    while not ended.wait(0.1):
        work.some(2)


def notes(folder: Path) -> list[Path]:
    """Micro-batches that Spark has planned."""
    return [path for path in folder.rglob("offsets/*") if path.name.isdigit()]


def as_delivered(row: dict[str, object]) -> dict[str, object]:
    after = row.get("after")
    return {"key": None, "unchanged": None} | row | {"after": None if after is None else json.dumps(after)}
