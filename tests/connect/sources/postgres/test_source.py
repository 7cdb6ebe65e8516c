"""PostgreSQL tables into topics with Spark, and the required database privileges."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from barnabas.connect.sources.postgres.reader import PostgresStreamReader
from barnabas.connect.sources.postgres.tables import Patterns
from barnabas.spark.errors import SourceError
from barnabas.testing import EmbeddedBroker
from tests.connect.sources.postgres.micro_batches import Engine, delivered, settings
from tests.connect.support import connector, consume, run_once
from tests.support.databases.postgres import PostgresServer

pytestmark = pytest.mark.timeout(300)
Connection = psycopg.Connection[tuple[Any, ...]]

DECLARED = """
name: {name}
from: {{postgres: {{url: "{url}", tables: [{tables}]}}}}
to: {{topic: {to}}}
"""


@pytest.fixture
def shop(postgres: PostgresServer, database: str) -> Iterator[Connection]:
    with postgres.connect(database) as connection:
        connection.execute(
            "CREATE TABLE orders (id int PRIMARY KEY, amount numeric(10,2), placed timestamptz, tags text[])"
        )
        connection.execute(
            "INSERT INTO orders VALUES (1, 9.90, '2026-01-01 00:00:00+00', '{a,b}'), (2, 5, NULL, NULL)"
        )
        yield connection


def test_rows_of_a_table_come_into_a_topic_with_tombstones_for_deleted_ones(
    spark: SparkSession,
    broker: EmbeddedBroker,
    tmp_path: Path,
    postgres: PostgresServer,
    database: str,
    shop: Connection,
) -> None:
    topic = broker.create_topic()
    text = DECLARED.format(
        name="rows", url=postgres.url(database), tables="public.orders", to=f"{{topic: {topic}, key: id}}"
    )
    declared = connector(tmp_path, text, broker.bootstrap_servers)
    run_once(declared, spark)
    shop.execute("UPDATE orders SET amount = 0.01 WHERE id = 1")
    shop.execute("DELETE FROM orders WHERE id = 2")
    shop.execute("INSERT INTO orders VALUES (3, 12345678.90, NULL, '{}')")
    shop.execute("CREATE TABLE other (id int)")
    before = slot_position(shop)
    run_once(declared, spark)
    assert slot_position(shop) > before, "the server was not told what it need not keep"
    records = [
        (one.key().decode(), one.value() and json.loads(one.value()))
        for one in consume(broker.bootstrap_servers, topic)
    ]
    first = {"id": 1, "amount": 9.90, "placed": "2026-01-01T00:00:00.000Z", "tags": ["a", "b"]}
    assert sorted(records[:2]) == [
        ("1", first),
        ("2", {"id": 2, "amount": 5.00, "placed": None, "tags": None}),
    ]
    assert records[2:] == [
        ("1", first | {"amount": 0.01}),
        ("2", None),
        ("3", {"id": 3, "amount": 12345678.90, "placed": None, "tags": []}),
    ]


def slot_position(shop: Connection) -> int:
    query = "SELECT confirmed_flush_lsn - '0/0'::pg_lsn FROM pg_replication_slots WHERE database = current_database()"
    row = shop.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def test_changes_of_many_tables_come_as_envelopes(
    spark: SparkSession,
    broker: EmbeddedBroker,
    tmp_path: Path,
    postgres: PostgresServer,
    database: str,
    shop: Connection,
) -> None:
    topic = broker.create_topic()
    text = DECLARED.format(
        name="envelopes", url=postgres.url(database), tables='"public.*"', to=f"{{topic: {topic}}}"
    )
    shop.execute("CREATE TABLE lines (order_id int, line int, what text, PRIMARY KEY (order_id, line))")
    declared = connector(tmp_path, text, broker.bootstrap_servers)
    run_once(declared, spark)
    with shop.transaction():
        shop.execute("INSERT INTO lines VALUES (1, 1, 'soap')")
        shop.execute("UPDATE orders SET id = 7 WHERE id = 2")
    run_once(declared, spark)
    records = [(one.key(), json.loads(one.value())) for one in consume(broker.bootstrap_servers, topic)]
    events = [
        (key, one["op"], one["table"], one["before"], one["after"])
        for key, one in records
        if one["op"] != "r"
    ]
    assert events == [
        (b'{"order_id":1,"line":1}', "c", "lines", None, {"order_id": 1, "line": 1, "what": "soap"}),
        (b'{"id":2}', "d", "orders", {"id": 2}, None),
        (b'{"id":7}', "c", "orders", None, {"id": 7, "amount": "5.00", "placed": None, "tags": None}),
    ]
    assert len({one["lsn"] for _, one in records[2:]}) == 1
    assert [one["seq"] for _, one in records[2:]] == [1, 2, 3]


def test_patterns_are_of_schemas_and_tables() -> None:
    patterns = Patterns(("orders", "shop_*.lines"))
    assert patterns.match("public", "orders")
    assert patterns.match("shop_eu", "lines")
    assert not patterns.match("shop_eu", "orders")
    assert Patterns(("a.b",)).single() == ("a", "b")
    assert Patterns(("a.*",)).single() is None


class TestRights:
    """Of the database's user, as docs/connect-postgres.md lists them."""

    @pytest.fixture
    def user(self, postgres: PostgresServer, database: str, shop: Connection) -> Iterator[str]:
        name = f"reader_{database}"
        shop.execute(f"CREATE USER {name} REPLICATION")
        shop.execute("CREATE PUBLICATION shop FOR TABLE orders")
        shop.execute(f"GRANT SELECT ON orders TO {name}")
        yield name
        shop.execute(f"DROP OWNED BY {name}")
        shop.execute(f"DROP USER {name}")

    def run(self, postgres: PostgresServer, database: str, user: str, folder: Path) -> list[Any]:
        Engine(folder, settings(postgres.url(database, user), "public.orders")).run()
        return delivered(folder)

    def test_those_that_are_listed_are_enough(
        self, postgres: PostgresServer, database: str, user: str, tmp_path: Path, shop: Connection
    ) -> None:
        assert len(self.run(postgres, database, user, tmp_path)) == 2
        shop.execute("DELETE FROM orders")
        assert len(self.run(postgres, database, user, tmp_path)) == 4

    @pytest.mark.parametrize(
        ("taken", "message"),
        [
            ("ALTER USER {} NOREPLICATION", "REPLICATION"),
            ("REVOKE SELECT ON orders FROM {}", "needs SELECT"),
            ("DROP PUBLICATION shop --{}", "owner of the tables.*CREATE PUBLICATION"),
        ],
    )
    def test_missing_library_is_named_by_the_connector(
        self,
        postgres: PostgresServer,
        database: str,
        user: str,
        tmp_path: Path,
        shop: Connection,
        taken: str,
        message: str,
    ) -> None:
        shop.execute(taken.format(user))
        with pytest.raises(SourceError, match=message):
            self.run(postgres, database, user, tmp_path)


def test_a_table_without_a_key_is_refused_before_its_updates_would_fail(
    postgres: PostgresServer, database: str, shop: Connection
) -> None:
    shop.execute("CREATE TABLE notes (text text)")
    reader = PostgresStreamReader(settings(postgres.url(database), "public.notes"))
    with pytest.raises(SourceError, match=r"public.notes: no primary key.*REPLICA IDENTITY FULL"):
        reader.latestOffset(reader.initialOffset(), None)  # type: ignore[arg-type]
    reader.stop()
    shop.execute("INSERT INTO notes VALUES ('x')")
    shop.execute("UPDATE notes SET text = 'y'")
