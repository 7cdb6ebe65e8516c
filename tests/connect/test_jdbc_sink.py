"""Rows into tables of PostgreSQL and of Derby, which supports only standard SQL."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from barnabas.connect.endpoints import ConnectorContext
from barnabas.connect.jdbc.connection import Database, DatabaseError
from barnabas.connect.jdbc.writer import JdbcWriter
from barnabas.connect.sinks.jdbc import JdbcSink
from barnabas.security.authn.credentials import Secret
from barnabas.spark.errors import PipelineError
from barnabas.spark.java import jvm_of
from barnabas.testing import EmbeddedBroker
from tests.connect.support import connector, consume, headers_of, produce, run_once
from tests.support.databases.postgres import PostgresServer
from tests.support.spark.jars import requires_connect_jars

pytestmark = [pytest.mark.timeout(300), requires_connect_jars]

UPSERT = """
name: {name}
from: {{topic: {{topic: {topic}, schema: "id BIGINT, total STRING"}}}}
to:
  jdbc: {{url: "{url}", table: orders, mode: upsert, keys: [id], delete: true}}
errors: {{topic: {name}.dead}}
"""
STEPS = ["looked", "staged", "counted", "changed", "swept", "merged"]


@pytest.fixture(params=["postgresql", "derby"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """A new one."""
    if request.param == "derby":
        spark: SparkSession = request.getfixturevalue("spark")
        log = str(tmp_path / "derby.log")  # or it is in the working directory
        jvm_of(spark).java.lang.System.setProperty("derby.stream.error.file", log)
        return Database(Secret(f"jdbc:derby:memory:{tmp_path.name};create=true"))
    return request.getfixturevalue("shop")  # type: ignore[no-any-return]


@pytest.fixture
def shop(postgres: PostgresServer, tmp_path: Path) -> Database:
    postgres.new_database(tmp_path.name)
    return Database(Secret(f"jdbc:postgresql://127.0.0.1:{postgres.port}/{tmp_path.name}?user=postgres"))


def ask(spark: SparkSession, database: Database, statement: str) -> list[tuple[Any, ...]]:
    with database.connected(spark) as connection:
        return connection.query(statement)


def do(spark: SparkSession, database: Database, *statements: str) -> None:
    with database.connected(spark) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def test_rows_are_inserted_changed_and_deleted_by_key(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, database: Database
) -> None:
    servers, topic, name = broker.bootstrap_servers, broker.create_topic(), tmp_path.name
    declared = connector(tmp_path, UPSERT.format(name=name, topic=topic, url=database.url.text), servers)
    produce(servers, topic, [(n, {"id": n, "total": f"first {n}"}) for n in range(5)])
    produce(servers, topic, [(3, {"id": 3, "total": "second"}), (4, None), ("none", {"total": "keyless"})])
    run_once(declared, spark)
    produce(
        servers, topic, [(1, {"id": 1, "total": None}), (2, None), (4, {"id": 4, "total": "back"}), (9, None)]
    )
    run_once(declared, spark)
    found = ask(spark, database, 'SELECT "id", CAST("total" AS VARCHAR(20)) FROM orders ORDER BY "id"')
    assert found == [(0, "first 0"), (1, None), (3, "second"), (4, "back")]
    [letter] = consume(servers, f"{name}.dead")
    assert headers_of(letter)["errors.reason"] == "id is null, and id is the key of the table"


# -- one writer, batch by batch -----------------------------------------------------------------------------

COLUMNS = {"id": "bigint", "total": "string"}


def opened(spark: SparkSession, tmp_path: Path, database: Database, **settings: Any) -> JdbcWriter:
    sink = JdbcSink(url=database.url, table="orders", **settings)
    return sink.open(spark, ConnectorContext("c", tmp_path, tmp_path.as_uri()), COLUMNS)


def rows(spark: SparkSession, *numbers: int) -> DataFrame:
    return spark.createDataFrame([(number, f"t{number}") for number in numbers], "id BIGINT, total STRING")


def ids(spark: SparkSession, database: Database) -> list[int]:
    return [row[0] for row in ask(spark, database, 'SELECT "id" FROM orders ORDER BY "id"')]


def dying_at(step: str) -> Callable[[str], None]:
    def passed(now: str) -> None:
        if now == step:
            raise KeyboardInterrupt

    return passed


def test_a_batch_that_ends_at_any_step_is_there_once_after_it_is_repeated(
    spark: SparkSession, tmp_path: Path, shop: Database
) -> None:
    for batch, step in enumerate(STEPS):
        writer = opened(spark, tmp_path, shop)
        writer.passed = dying_at(step)
        with pytest.raises(KeyboardInterrupt):
            writer.write(rows(spark, 2 * batch, 2 * batch + 1), "q", batch)
        opened(spark, tmp_path, shop).write(rows(spark, 2 * batch, 2 * batch + 1), "q", batch)
        assert ids(spark, shop) == list(range(2 * batch + 2)), step
    writer = opened(spark, tmp_path, shop)
    writer.write(rows(spark, 100), "q", len(STEPS))
    assert ask(spark, shop, "SELECT count(*) FROM barnabas_stage_c") == [(0,)]


def test_a_run_that_was_replaced_changes_nothing(spark: SparkSession, tmp_path: Path, shop: Database) -> None:
    """Asleep since before it staged, or since after."""
    for step in ("looked", "staged"):
        sleeper = opened(spark, tmp_path, shop)
        batch = len(ids(spark, shop))
        sleeper.passed = lambda now, batch=batch, step=step: (  # type: ignore[misc,assignment]
            opened(spark, tmp_path, shop).write(rows(spark, batch), "q", batch) if now == step else None
        )
        with pytest.raises(PipelineError, match="Another run of c has taken over"):
            sleeper.write(rows(spark, batch), "q", batch)
    assert ids(spark, shop) == [0, 1]


def test_copy_of_an_older_state_is_discarded(spark: SparkSession, tmp_path: Path, shop: Database) -> None:
    writer = opened(spark, tmp_path, shop)
    for batch in range(3):
        writer.write(rows(spark, batch), "q", batch)
    for query, batch in (("q", 1), ("q", 4), ("another", 3)):
        with pytest.raises(PipelineError, match="one of them is an older copy"):
            writer.write(rows(spark, 9), query, batch)
    writer.write(rows(spark, 9), "a new checkpoint", 0)
    assert ids(spark, shop) == [0, 1, 2, 9]


def test_lost_database_connection_during_a_merge_is_reported_without_loss(
    spark: SparkSession, tmp_path: Path, shop: Database, postgres: PostgresServer
) -> None:
    def away(now: str) -> None:
        if now == "changed":
            postgres.stop(at_once=True)

    writer = opened(spark, tmp_path, shop)
    writer.write(rows(spark, 1), "q", 0)
    writer.passed = away
    try:
        with pytest.raises(DatabaseError, match="nothing is lost, and the batch is retried") as caught:
            writer.write(rows(spark, 2), "q", 1)
        assert shop.location in str(caught.value)
        with pytest.raises(DatabaseError, match="No connection to the database at"):
            opened(spark, tmp_path, shop)
    finally:
        postgres.start()
    opened(spark, tmp_path, shop).write(rows(spark, 2), "q", 1)
    assert ids(spark, shop) == [1, 2]


def test_texts_are_converted_to_column_types(spark: SparkSession, tmp_path: Path, shop: Database) -> None:
    do(spark, shop, "CREATE TABLE orders (id int PRIMARY KEY, total jsonb, note text DEFAULT 'kept')")
    writer = opened(spark, tmp_path, shop, mode="upsert", keys=("id",))
    for batch, text in enumerate(('{"a": 1}', '{"a": 2}')):
        writer.write(spark.createDataFrame([(1, text)], "id BIGINT, total STRING"), "q", batch)
    assert ask(spark, shop, "SELECT id, total->>'a', note FROM orders") == [(1, "2", "kept")]
    with pytest.raises(DatabaseError, match="invalid input syntax for type json"):
        writer.write(spark.createDataFrame([(1, "{")], "id BIGINT, total STRING"), "q", 2)


def test_a_table_gains_the_columns_that_it_lacks(
    spark: SparkSession, tmp_path: Path, database: Database
) -> None:
    do(spark, database, 'CREATE TABLE orders ("id" int)', "INSERT INTO orders VALUES (7)")
    for refusal in ({"schema_evolution": "fail"}, {"create": False}):
        with pytest.raises(PipelineError, match="The table orders has no column for total"):
            opened(spark, tmp_path, database, **refusal)
    writer = opened(spark, tmp_path, database)
    writer.write(spark.createDataFrame([(8, "a")], "id BIGINT, total STRING"), "q", 0)
    found = ask(spark, database, 'SELECT "id", CAST("total" AS VARCHAR(9)) FROM orders')
    assert sorted(found) == [(7, None), (8, "a")]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"mode": "upsert"}, "requires `keys`"),
        (
            {"mode": "upsert", "keys": ("number",)},
            "The rows have no key field number; their fields are id, total",
        ),
        ({"create": False}, "Table orders does not exist at jdbc:postgresql://"),
    ],
)
def test_impossible_sink_is_reported_before_the_first_batch(
    spark: SparkSession, tmp_path: Path, shop: Database, settings: dict[str, Any], text: str
) -> None:
    with pytest.raises(PipelineError) as caught:
        opened(spark, tmp_path, shop, **settings)
    assert text in str(caught.value)


def test_no_password_is_in_an_error_or_a_plan(spark: SparkSession, tmp_path: Path, shop: Database) -> None:
    url = shop.url.text.replace("?user=postgres", "?user=nobody&password=hunter22")
    sink = JdbcSink(url=Secret(url), table="orders", password=Secret("hunter22"))
    with pytest.raises(DatabaseError) as caught:
        sink.open(spark, ConnectorContext("c", tmp_path, tmp_path.as_uri()), COLUMNS)
    assert "hunter22" not in str(caught.value) + repr(sink) + sink.location()
    let_in = Database(Secret(shop.url.text), None, Secret("hunter22"))
    reader = spark.read.format("jdbc").options(**let_in.spark_options(spark))
    plan = reader.option("query", "SELECT 1 AS one").load()._jdf.queryExecution()
    assert "hunter22" not in plan.toString() + plan.logical().treeString()
