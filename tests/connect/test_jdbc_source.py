"""Database tables into topics and files."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.connect.control_files import LocalFolder
from barnabas.connect.endpoints import ConnectorContext
from barnabas.connect.jdbc.connection import Database
from barnabas.connect.jdbc.reader import TableFeeder
from barnabas.connect.positions import Positions
from barnabas.connect.sources.jdbc import JdbcSource
from barnabas.security.authn.credentials import Secret
from barnabas.spark.errors import PipelineError
from barnabas.testing import EmbeddedBroker
from tests.connect.support import connector, consume, run_once
from tests.support.databases.postgres import PostgresServer
from tests.support.spark.jars import requires_connect_jars

pytestmark = [pytest.mark.timeout(300), requires_connect_jars]


@pytest.fixture
def database(postgres: PostgresServer, tmp_path: Path) -> str:
    postgres.new_database(tmp_path.name)
    return f"jdbc:postgresql://127.0.0.1:{postgres.port}/{tmp_path.name}"


def execute(postgres: PostgresServer, tmp_path: Path, *statements: str) -> None:
    with postgres.connect(tmp_path.name) as connection:
        for statement in statements:
            connection.execute(statement)


def test_new_rows_come_once_by_a_number_that_grows(
    spark: SparkSession, broker: EmbeddedBroker, postgres: PostgresServer, database: str, tmp_path: Path
) -> None:
    execute(
        postgres, tmp_path, "CREATE TABLE orders (id bigserial, name text, paid numeric(10,2))",
        "INSERT INTO orders (name, paid) SELECT 'o' || n, n FROM generate_series(1, 25) n",
    )  # fmt: skip
    target, servers = broker.create_topic(), broker.bootstrap_servers
    declared = connector(
        tmp_path,
        f"""
name: orders
from: {{jdbc: {{url: "{database}", table: orders, incrementing: id, user: postgres, max_rows: 10, settle: 0s}}}}
to: {{topic: {{topic: {target}, key: id}}}}
""",
        servers,
    )
    run_once(declared, spark)
    execute(postgres, tmp_path, "INSERT INTO orders (name) VALUES ('last')")
    run_once(declared, spark)
    found = [json.loads(one.value()) for one in consume(servers, target)]
    assert sorted(one["id"] for one in found) == list(range(1, 27))
    assert next(one for one in found if one["id"] == 3) == {"id": 3, "name": "o3", "paid": 3.0}


def feeder(spark: SparkSession, tmp_path: Path, url: str, **settings: object) -> TableFeeder:
    source = JdbcSource(url=Secret(url), user="postgres", settle="0s", **settings)  # type: ignore[arg-type]
    context = ConnectorContext("c", tmp_path, tmp_path.as_uri())
    source.read(spark, context)
    [found] = context.feeders
    assert isinstance(found, TableFeeder)
    return found


def test_poll_interrupted_at_any_step_returns_each_row_once(
    spark: SparkSession, postgres: PostgresServer, database: str, tmp_path: Path
) -> None:
    execute(postgres, tmp_path, "CREATE TABLE events (at timestamptz, n int)")

    def dying(step: str) -> None:
        raise KeyboardInterrupt(step)

    for number, step in enumerate(("noted", "decided")):
        execute(postgres, tmp_path, f"INSERT INTO events VALUES (now(), {number})")
        one = feeder(spark, tmp_path, database, table="events", timestamp="at")
        one.incoming.passed = lambda now, step=step: dying(now) if now == step else None  # type: ignore[misc]
        with pytest.raises(KeyboardInterrupt):
            one.fetch()
        execute(postgres, tmp_path, f"INSERT INTO events VALUES (now(), {number + 10})")
        again = feeder(spark, tmp_path, database, table="events", timestamp="at")
        while again.fetch():
            pass
    rows = spark.read.parquet(again.incoming.data).collect()
    assert sorted(row.n for row in rows) == [0, 1, 10, 11]
    newest = max(row["at"] for row in rows).isoformat()[:19]
    assert (Positions(LocalFolder(tmp_path / "barnabas"), "c").incoming() or "").startswith(newest)


def test_table_that_cannot_be_followed_is_reported(
    spark: SparkSession, postgres: PostgresServer, database: str, tmp_path: Path
) -> None:
    execute(postgres, tmp_path, "CREATE TABLE events (at timestamptz, n int)")
    with pytest.raises(PipelineError, match="has no column id; it has at, n"):
        feeder(spark, tmp_path, database, table="events", incrementing="id")
    with pytest.raises(PipelineError, match="either `incrementing` or `timestamp`"):
        feeder(spark, tmp_path, database, table="events")
    with pytest.raises(PipelineError, match='relation "nothing" does not exist'):
        feeder(spark, tmp_path, database, table="nothing", incrementing="id")
    with pytest.raises(PipelineError, match="No JDBC driver found for jdbc:nothing"):
        Database(Secret("jdbc:nothing://x")).spark_options(spark)
